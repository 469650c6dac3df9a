defmodule Larder.Native do
  # The functions of the native library, which `priv` has. A reference is of the process that calls: where the answer is `:pending`,
  # the process gets a message `{reference, {:ok, answer} | {:error, exception}}`.
  @moduledoc false

  @on_load :load

  def load do
    library = :code.priv_dir(:larder_cache) |> to_string() |> Path.join("larder_elixir") |> String.to_charlist()
    :erlang.load_nif(library, 0)
  end

  def hit(_view, _key), do: missing()
  def key_bytes(_key), do: missing()
  def take_logs, do: missing()

  def open_cache(_namespace, _options), do: missing()
  def close_cache(_cache, _limit), do: missing()
  def invalidate_tags(_cache, _reference, _tags, _soft), do: missing()
  def clear(_cache, _reference), do: missing()
  def delete_matched(_cache, _reference, _pattern), do: missing()
  def drain(_cache, _reference, _limit), do: missing()
  def set_enabled(_cache, _enabled), do: missing()
  def coherence(_cache), do: missing()
  def stats(_cache), do: missing()

  def open_view(_cache, _name, _schema, _number, _codec, _signing_keys, _options), do: missing()
  def read(_view, _reference, _key), do: missing()
  def read_multi(_view, _reference, _keys), do: missing()
  def exists(_view, _reference, _key), do: missing()
  def write(_view, _reference, _key, _value, _options), do: missing()
  def write_multi(_view, _reference, _pairs, _options), do: missing()
  def add(_view, _reference, _key, _value, _options), do: missing()
  def delete(_view, _reference, _key), do: missing()
  def delete_multi(_view, _reference, _keys), do: missing()
  def expire(_view, _reference, _key), do: missing()
  def take(_view, _reference, _key), do: missing()
  def touch(_view, _reference, _key, _options), do: missing()
  def ttl(_view, _reference, _key), do: missing()
  def increment(_view, _reference, _key, _by, _initial, _options), do: missing()

  def update(_view, _reference, _key, _options), do: missing()
  def put(_update, _reference, _value), do: missing()
  def keep_value(_update, _reference), do: missing()
  def remove(_update, _reference), do: missing()
  def leave(_update), do: missing()

  def lease(_view, _reference, _key, _options), do: missing()
  def stale(_load), do: missing()
  def complete(_load, _reference, _value, _options), do: missing()
  def keep(_load, _reference), do: missing()
  def fail(_load, _reference, _message, _cause), do: missing()
  def lease_multi(_view, _reference, _keys, _options), do: missing()
  def complete_multi(_load, _reference, _pairs, _options), do: missing()
  def fail_multi(_load, _reference, _message, _cause), do: missing()

  defp missing do
    :erlang.nif_error("the library of larder_cache is not loaded: is it in priv? `elixir build.exs` builds it")
  end
end
