# frozen_string_literal: true

# The examples of the pages print what they show.

require_relative "support"

class DocumentsTest < LarderTest
  PAGES = %w[bindings/ruby/README.md docs/ruby.md].freeze
  ROOT = File.expand_path("../../..", __dir__)

  # What a piece of an example ends with.
  RESULT = /# => (?<result>.*)\z/.freeze
  RAISED = /# raises (?<error>\S+): (?<message>.*)\z/.freeze

  PAGES.each do |page|
    define_method("test_examples_of_#{page}") do
      text = File.read(File.join(ROOT, page))
      examples = text.scan(/^```ruby\n(.*?)^```$/m).flatten
      refute_empty examples
      place = TOPLEVEL_BINDING.dup
      place.local_variable_set(:redis_url, redis.url)
      compared = examples.sum { |example| run_example(example, place, page) }
      assert_operator compared, :>, 3
      place.local_variables.each do |name|
        value = place.local_variable_get(name)
        @opened << value if value.is_a?(Larder::Cache)
      end
    end
  end

  private

  # Runs what is before each result, and compares. Returns how many there were.
  def run_example(example, place, page)
    compared = 0
    piece = +""
    example.each_line(chomp: true) do |line|
      piece << line << "\n"
      if (shown = RESULT.match(line))
        assert_equal shown[:result], place.eval(piece, page).inspect, piece
      elsif (shown = RAISED.match(line))
        error = assert_raises(StandardError, piece) { place.eval(piece, page) }
        assert_equal [shown[:error], shown[:message]], [error.class.name, error.message], piece
      else
        next
      end
      compared += 1
      piece = +""
    end
    place.eval(piece, page)
    compared
  end
end
