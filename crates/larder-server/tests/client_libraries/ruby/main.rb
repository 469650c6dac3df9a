# All cases of the clients for Ruby.

require_relative "suite"
require_relative "redis_rb"
require_relative "rails"

suite = Suite.new(ARGV[0], ARGV[1].to_i)
redis_rb_cases(suite)
rails_cases(suite)
suite.finish
