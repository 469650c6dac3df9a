# frozen_string_literal: true

# What the store does with the view of larder: keys and stored objects, not names and values.

module ActiveSupport
  module Cache
    class LarderStore < Store
      module Tiers # :nodoc:
        NOT_CONFIRMED = "redis did not confirm: the change holds in this process and is queued for the others"

        private
          def lookup(key, _payload = nil)
            view.read(key, MISS)
          end

          def lookup_multi(keys)
            keys.empty? ? {} : view.read_multi(*keys)
          end

          # In memory only.
          def hit(key)
            view.hit(key, MISS)
          end

          # The value of a key that has none for this version: that of the block, or that of another caller's.
          def generate(key, version, options, &block)
            return generate_apart(key, version, options, &block) if apart?(options)

            value = generate_together(key, version, options, &block)
            return value unless MISS.equal?(value)

            # There is one of another version.
            value = replace(key, version, options, &block)
            MISS.equal?(value) ? generate_apart(key, version, options, &block) : value
          end

          # Whether a block runs for its caller only.
          def apart?(options)
            options[:force] || lifetime(options).nil? || uncommitted?
          end

          def generate_apart(key, version, options)
            value = yield
            store(key, packed(value, version, options), options) unless kept_apart?(value, options)
            value
          end

          def kept_apart?(value, options)
            (value.nil? && options[:skip_nil]) || uncommitted?
          end

          # The value of one of all callers that need one. `MISS` if that is of another version.
          def generate_together(key, version, options, refresh: false, &block)
            return generate_apart(key, version, options, &block) unless @waits.enter([key])

            begin
              value, state = nil, :follows
              stored = view.fetch(key, refresh: refresh, **lifetime(options)) do |load|
                state = :leads
                value = @waits.lead([key], &block)
                state = :loaded
                load.no_store! if value.nil? && options[:skip_nil]
                packed(value, version, options)
              end
              state == :loaded ? value : usable(stored, version)
            rescue Larder::LoadFailed => failed
              raise if state == :leads

              raise_as_own(failed)
            ensure
              @waits.leave
            end
          end

          # As `generate_together` where there is a value of another version. Other processes have that in memory: a write tells them.
          def replace(key, version, options)
            generated = false
            value = generate_together(key, version, options, refresh: true) do
              # Another caller may have replaced it meanwhile.
              found = usable(lookup(key), version)
              generated = MISS.equal?(found)
              generated ? yield : found
            end
            store(key, packed(value, version, options), options) if generated && !kept_apart?(value, options)
            value
          end

          # Raises what the block of another caller raised as if it were this caller's, who may rescue it by its class. A copy:
          # an exception has the backtrace of one thread.
          def raise_as_own(failed)
            raise failed unless failed.cause

            copy = failed.cause.clone(freeze: false)
            copy.set_backtrace(failed.backtrace)
            raise copy, cause: failed
          end

          # The values by their names, and the names for which the block has run.
          def generate_multi(names, options)
            keys = names.to_h { |name| [name, key_of(name, options)] }
            by_key = keys.invert
            generated = {}
            stored = load_multi(keys.values.uniq, options) do |key|
              name = by_key.fetch(key)
              generated[name] = yield(name)
              packed(generated[name], version_of(name, options), options)
            end
            values = names.uniq.index_with do |name|
              generated.fetch(name) do
                value = usable(stored.fetch(keys[name], MISS), version_of(name, options))
                next value unless MISS.equal?(value)

                generate(keys[name], version_of(name, options), options) { generated[name] = yield(name) }
              end
            end
            [values, generated.keys]
          end

          # What is stored by key. The block makes what is nowhere, for all callers that need it.
          def load_multi(keys, options)
            return {} if keys.empty?
            return lookup_multi(keys) if apart?(options) || !@waits.enter(keys)

            begin
              view.fetch_multi(*keys, **lifetime(options)) do |missing|
                @waits.lead(missing) { missing.index_with { |key| yield(key) } }
              end
            rescue Larder::LoadFailed => failed
              raise_as_own(failed)
            ensure
              @waits.leave
            end
          end

          def store(key, stored, options)
            call = lifetime(options)
            if call.nil?
              remove(key)
              true
            elsif options[:unless_exist]
              failsafe(:write, false) { view.add(key, stored, **call) }
            else
              confirmed(:write, view.write(key, stored, **call))
            end
          end

          def store_multi(values, options)
            call = lifetime(options)
            return true if values.empty?
            return remove_multi(values.keys) && true if call.nil?

            confirmed(:write_multi, view.write_multi(values, **call))
          end

          def add_to(key, number, options)
            call = lifetime(options) || { ttl: SHORTEST }
            failsafe(:increment, nil) { view.increment(key, number, initial: number, **call) }
          end

          def remove(key)
            existed, reached = view.delete_with_reach(key)
            confirmed(:delete, reached, existed)
          end

          def remove_multi(keys)
            return 0 if keys.empty?

            count, reached = view.delete_multi_with_reach(keys)
            confirmed(:delete_multi, reached, count)
          end

          # Keys that match a glob.
          def remove_matched(glob)
            count, reached = @larder.delete_matched_with_reach("#{@view_name}:#{glob}")
            confirmed(:delete_matched, reached, count)
          end

          def remove_all
            confirmed(:clear, @larder.clear)
          end

          def remove_tags(tags)
            confirmed(:invalidate_tags, @larder.invalidate_tags(*tags))
          end

          # Redis away is no error of the caller.
          def failsafe(method, returning)
            yield
          rescue Larder::RedisError => error
            @error_handler.call(method: method, returning: returning, exception: error)
            returning
          end

          # The answer of a change, which not all processes may know of.
          def confirmed(method, reached, answer = reached)
            unless reached
              @error_handler.call(method: method, returning: answer, exception: Larder::RedisError.new(NOT_CONFIRMED))
            end
            answer
          end
      end
    end
  end
end
