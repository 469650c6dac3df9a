import Config

# Each node has a folder of its own.
config :mnesia, dir: to_charlist(Path.join(System.get_env("DATA", "data"), to_string(node())))
