defmodule Larder.Error do
  @moduledoc "What no other exception of this package is for, such as adding to a value that is no integer."
  defexception [:message]
end

defmodule Larder.OptionError do
  @moduledoc "An option is unknown, or its value is none of the valid ones, which the message names."
  defexception [:message]
end

defmodule Larder.KeyTypeError do
  @moduledoc "A key is of a type that no key has."
  defexception [:message]
end

defmodule Larder.EncodeError do
  @moduledoc "A value cannot be written. It is stored nowhere, and the message names the place in it."
  defexception [:message]
end

defmodule Larder.LoadFailed do
  @moduledoc """
  The loader of another caller failed.

  `cause` is its exception, or `{:throw, value}` or `{:exit, reason}`.
  """
  defexception [:message, :cause]
end

defmodule Larder.LoadTimeout do
  @moduledoc "The load exceeded its `hard_timeout`, and there was no stale value."
  defexception [:message]
end

defmodule Larder.RecursiveLoad do
  @moduledoc "A loader fetched the key that it loads, or one whose loader waits for that key: it would wait for itself."
  defexception [:message]
end

defmodule Larder.RedisError do
  @moduledoc "Redis did not confirm, refused, or was not asked. Of an invalidation this is no error: it is queued."
  defexception [:message]
end

defmodule Larder.Contended do
  @moduledoc "Other nodes changed the key between a read and a write, again and again. Nothing was stored."
  defexception [:message]
end

defmodule Larder.Closed do
  @moduledoc "The cache is not running, or it ended during the call."
  defexception [:message]
end
