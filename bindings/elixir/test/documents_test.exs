# The examples of the pages: the lines behind `iex>` are run, and their results are those that the page has.
defmodule DocumentsTest do
  use ExUnit.Case, async: false
  import Support

  @moduletag :capture_log

  # The parts of a page: code, and what it should result in, if the page says so.
  defp parts(page) do
    blocks = Regex.scan(~r/^```elixir\n(.*?)^```$/ms, page, capture: :all_but_first)
    blocks |> List.flatten() |> Enum.filter(&(&1 =~ "iex>")) |> Enum.flat_map(&parts_of_block/1)
  end

  defp parts_of_block(block) do
    [before | examples] = Regex.split(~r/^iex> /m, block)

    examples =
      for example <- examples do
        [first | rest] = String.split(example, "\n")
        {continued, result} = Enum.split_while(rest, &String.starts_with?(&1, "...> "))
        code = Enum.join([first | Enum.map(continued, &String.replace_prefix(&1, "...> ", ""))], "\n")
        {code, result |> Enum.join("\n") |> String.trim()}
      end

    [{before, ""} | examples]
  end

  defp check({code, ""}, binding), do: code |> Code.eval_string(binding) |> elem(1)

  defp check({code, "** (" <> error}, binding) do
    [module, message] = String.split(error, ") ", parts: 2)
    assert_raise Module.concat([module]), message, fn -> Code.eval_string(code, binding) end
    binding
  end

  defp check({code, expected}, binding) do
    {result, binding} = Code.eval_string(code, binding)
    assert inspect(result, limit: :infinity, printable_limit: :infinity, width: :infinity) == expected, code
    binding
  end

  for page <- ["bindings/elixir/README.md", "docs/elixir.md"] do
    test "the examples of #{page}" do
      parts = root() |> Path.join(unquote(page)) |> File.read!() |> parts()
      assert Enum.count(parts, fn {_, result} -> result != "" end) >= 3
      redis = Support.Redis.start()

      ExUnit.CaptureIO.capture_io(fn ->
        binding = Enum.reduce(parts, [redis: redis.url], &check/2)
        # The next page has a cache of that name too.
        Supervisor.stop(binding[:supervisor])
      end)
    end
  end
end
