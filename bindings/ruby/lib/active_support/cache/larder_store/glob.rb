# frozen_string_literal: true

# The patterns of `delete_matched`: globs, and the regular expressions that say the same as one.

require "strscan"

module ActiveSupport
  module Cache
    class LarderStore < Store
      module Glob # :nodoc:
        SPECIAL = /[*?\[\]\\]/
        # What a regular expression may have for itself: no other character is a repetition of it.
        ONCE = /(?![*+?{])/
        LITERAL = /[^\\^$.|?*+()\[\]{}]#{ONCE}/
        ESCAPED = /\\([^A-Za-z0-9])#{ONCE}/

        class << self
          # The glob of a pattern.
          def of(matcher)
            case matcher
            when String then matcher
            when Regexp then translate(matcher) || refuse(matcher)
            else raise ArgumentError, "the pattern is #{matcher.inspect}; it must be a String or a Regexp"
            end
          end

          # The glob that a text alone matches.
          def escape(text)
            text.gsub(SPECIAL) { |character| "\\#{character}" }
          end

          private
            def refuse(regexp)
              raise ArgumentError, "#{regexp.inspect} is no glob: a Regexp may have characters, .*, and ^ or \\A and $ or " \
                "\\z at its ends; otherwise use a glob such as \"user/*\", or invalidate_tags"
            end

            # `nil` if there is no such glob.
            def translate(regexp)
              return unless (regexp.options & (Regexp::IGNORECASE | Regexp::EXTENDED)).zero?

              rest = StringScanner.new(regexp.source)
              glob = rest.skip(/\\A|\^/) ? +"" : +"*"
              until rest.eos?
                return glob if rest.skip(/(\\z|\\Z|\$)\z/)

                glob << (part(rest) || (return nil))
              end
              glob << "*"
            end

            def part(rest)
              if rest.skip(/\.\*#{ONCE}/)
                "*"
              elsif rest.scan(ESCAPED)
                escape(rest[1])
              elsif rest.scan(LITERAL)
                escape(rest.matched)
              end
            end
        end
      end
    end
  end
end
