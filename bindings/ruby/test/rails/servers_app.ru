# frozen_string_literal: true

# What the servers in servers_test.rb load. unicorn reads this file without an encoding, as no program of Rails is read.

require_relative "servers_app"

run APP
