defmodule Larder.View do
  @moduledoc """
  Values of one kind in a cache, which `Larder.view/3` opens.

  Any process can hold it. Where the process of the cache was started again, it goes on with the new one.
  """
  @enforce_keys [:cache, :name, :codec, :options, :native]
  defstruct [:cache, :name, :codec, :options, :native, loads_ahead: false]

  @opaque t :: %__MODULE__{}

  alias Larder.{Cache, Native, OptionError}

  @numbers_of_64_bits -0x8000000000000000..0xFFFFFFFFFFFFFFFF

  @doc false
  def open(cache_name, name, options) do
    cache = Cache.fetch!(cache_name)

    case Cache.find_view(cache, {name, options}) do
      {:ok, view} ->
        view

      :error ->
        view = make(cache, name, options)
        Cache.keep_view(cache, {name, options}, view)
        view
    end
  end

  @doc "The same view of the cache that runs now under that name."
  def renew(%__MODULE__{cache: cache, name: name, options: options, native: native}) do
    case open(cache, name, options) do
      # The process ends, and its name is still there.
      %__MODULE__{native: ^native} -> raise Larder.Closed, "the cache #{inspect(cache)} was closed"
      view -> view
    end
  end

  defp make(cache, name, options) do
    {own, call_options} = Keyword.split(options, [:schema, :codec, :keys])
    {schema, number} = schema(Keyword.get(own, :schema, {to_string(name), 1}))
    {codec, keys} = codec(Keyword.get(own, :codec, :messagepack), Keyword.get(own, :keys))

    case Native.open_view(cache.native, to_string(name), schema, number, Atom.to_string(codec), keys, call_options) do
      :closed ->
        raise Larder.Closed, "the cache #{inspect(cache.name)} was closed"

      native ->
        %__MODULE__{
          cache: cache.name,
          name: name,
          codec: codec,
          options: options,
          native: native,
          loads_ahead: Keyword.get(options, :refresh_ahead) not in [nil, :never, "never"]
        }
    end
  end

  defp schema({name, number}) when is_binary(name) and is_integer(number), do: {name, number}
  defp schema({name, number}) when is_atom(name) and is_integer(number), do: {Atom.to_string(name), number}

  defp schema(other) do
    raise OptionError, ~s(schema is #{inspect(other)}; it must be a name and a number, as in {"product", 3})
  end

  defp codec(codec, nil) when codec in [:messagepack, :json], do: {codec, nil}
  defp codec(codec, _) when codec in [:messagepack, :json], do: raise(OptionError, "keys sign the values of views whose codec is :etf")
  defp codec(:etf, keys) when is_list(keys), do: {:etf, keys}

  defp codec(:etf, keys) do
    raise OptionError, "keys is #{describe(keys)}; a view whose codec is :etf needs a list of binaries that sign its values"
  end

  defp codec(other, _), do: raise(OptionError, "codec is #{inspect(other)}; it must be :messagepack, :json or :etf")

  # A key is no text for a message.
  defp describe(nil), do: "missing"
  defp describe(_), do: "no list"

  @doc "A value as the native functions take it: of a private view in the external format, unless larder can add to it."
  def encode(%__MODULE__{codec: codec}, value) when codec != :etf, do: value
  def encode(_, value) when is_binary(value) or is_float(value), do: value
  def encode(_, value) when is_nil(value) or is_boolean(value), do: value
  def encode(_, value) when is_integer(value) and value in @numbers_of_64_bits, do: value
  def encode(_, value), do: {:external, :erlang.term_to_binary(value)}

  defimpl Inspect do
    # The options have keys that sign.
    def inspect(view, _), do: "#Larder.View<#{Kernel.inspect(view.cache)} #{view.name}>"
  end
end
