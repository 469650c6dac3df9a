# What the tests need, and their runner. Redis is a real one, which each test that needs it starts.
Code.require_file("support.exs", __DIR__)
ExUnit.start(timeout: 120_000, assert_receive_timeout: 5_000)
