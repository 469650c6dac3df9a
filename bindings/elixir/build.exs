# Builds the native part with cargo and puts it into `priv`, where the package looks for it: `elixir build.exs`.
#
# With `--archive FILE` it also makes an archive of the package with the library, for projects that build nothing themselves.

defmodule Build do
  @library "priv/larder_elixir.so"
  @files ["lib", "mix.exs", "README.md", ".formatter.exs", @library]

  def main(words) do
    File.cd!(__DIR__)
    File.mkdir_p!("priv")
    # A node that runs has the old file open: the new one gets its name, not its place.
    File.cp!(built(), @library <> ".new")
    File.rename!(@library <> ".new", @library)
    IO.puts(Path.expand(@library))

    case words do
      ["--archive", file] -> archive(file)
      [] -> :ok
    end
  end

  # The file that cargo says it has made.
  defp built do
    words = ["build", "--release", "--locked", "--message-format=json", "--manifest-path", "Cargo.toml"]

    case System.cmd("cargo", words) do
      {printed, 0} ->
        [_, file] = Regex.run(~r/"filenames":\["([^"]*larder_elixir\.(?:so|dylib))"/, printed)
        file

      {_, status} ->
        System.halt(status)
    end
  end

  defp archive(file) do
    files = for name <- @files, do: {to_charlist("larder_cache/" <> name), to_charlist(name)}
    :ok = :erl_tar.create(to_charlist(file), files, [:compressed])
    IO.puts(Path.expand(file))
  end
end

Build.main(System.argv())
