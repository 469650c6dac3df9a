# frozen_string_literal: true

# The local cache of Rails, for stores with `local_cache: true`: until the end of a request, or of a block, a caller gets what
# it has read or written before, whatever other threads and processes have changed.

module ActiveSupport
  module Cache
    class LarderStore < Store
      # Has `with_local_cache`, and the `middleware` that Rails inserts for each request.
      module RequestCache
        include Strategy::LocalCache

        private
          def lookup(key, payload = nil)
            return super unless (cache = local_cache)

            local = true
            entry = cache.fetch_entry(key) do
              local = false
              found = super
              MISS.equal?(found) ? nil : entry_of(found)
            end
            payload[:store] = cache.class.name if local && payload
            entry ? entry.value : MISS
          end

          def hit(key)
            return super unless (cache = local_cache)

            entry = cache.fetch_entry(key) do
              found = super
              # Redis may have it.
              MISS.equal?(found) ? (return MISS) : entry_of(found)
            end
            entry ? entry.value : MISS
          end

          def lookup_multi(keys)
            with_local(keys) { |missing| super(missing) }
          end

          def generate(key, version, options)
            value = super
            remember(key, packed(value, version, options)) unless kept_apart?(value, options) || lifetime(options).nil?
            value
          end

          def load_multi(keys, options, &block)
            with_local(keys) { |missing| super(missing, options, &block) }
          end

          def store(key, stored, options)
            options[:unless_exist] ? forget(key) : remember(key, stored)
            super
          end

          def store_multi(values, options)
            values.each { |key, stored| remember(key, stored) }
            super
          end

          def remove(key)
            forget(key)
            super
          end

          def remove_multi(keys)
            keys.each { |key| forget(key) }
            super
          end

          def remove_tags(tags)
            local_cache&.clear
            super
          end

          # What is stored by key. The block looks for what is not in the local cache.
          def with_local(keys)
            local = local_of(keys)
            found = yield(keys - local.keys)
            found.each { |key, stored| remember(key, stored) }
            local.merge(found)
          end

          def local_of(keys)
            return {} unless (cache = local_cache)

            keys.each_with_object({}) do |key, found|
              next unless (entry = cache.read_entry(key))

              copy = entry.dup
              copy.dup_value!
              found[key] = copy.value
            end
          end

          def remember(key, stored)
            local_cache&.write_entry(key, entry_of(stored))
          end

          def forget(key)
            local_cache&.delete_entry(key)
          end

          def entry_of(stored)
            Entry.new(stored, compress: false)
          end
      end
    end
  end
end
