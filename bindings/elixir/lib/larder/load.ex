defmodule Larder.Load do
  @moduledoc """
  What a loader with one argument gets.

  `stale` is `{:ok, value}`, the stale value of the key, or `:miss`.
  """
  @enforce_keys [:key, :stale]
  defstruct [:key, :stale]

  @type t :: %__MODULE__{key: Larder.key(), stale: {:ok, Larder.value()} | :miss}
end

defmodule Larder.Loaded do
  # What `Larder.loaded/2` and `Larder.keep/0` return.
  @moduledoc false
  defstruct [:value, options: [], keep: false]

  @type t :: %__MODULE__{}
end
