# frozen_string_literal: true

# All tests of this folder.

Dir.glob("*_test.rb", base: __dir__).sort.each { |file| require_relative file }
