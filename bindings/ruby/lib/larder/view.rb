# frozen_string_literal: true

# A view: values of one kind in a cache.

module Larder
  # Values of one kind. Cache#view makes it.
  #
  # Options of calls are +ttl+, +negative_ttl+, +grace+, +retry_after+, +soft_timeout+, +hard_timeout+, +jitter+ and +tags+, and of
  # fetches +refresh+ and +refresh_ahead+ too: a number such as +0.8+, the part of the TTL after which a value that is still fresh is
  # loaded again, or <tt>:by_cost</tt>, by a chance that is the greater the longer its last load took.
  class View
    private_class_method :_open
    private :_read, :_read_multi, :_load, :_bulk_load, :_write, :_write_multi, :_add, :_delete_multi, :_expire, :_take,
            :_touch, :_increment, :_loads_ahead?, :_update

    # The cache whose values these are.
    attr_reader :cache
    # The name.
    attr_reader :name

    class << self
      # Cache#view calls it.
      def open(cache, name, schema:, codec:, keys:, shared:, **options) # :nodoc:
        schema_name, number = schema_of(name, schema)
        view = _open(cache, name, schema_name, number, shared, codec.to_s, secrets(codec, keys), options)
        view.instance_exec do
          @cache = cache
          @name = name.to_s
        end
        view
      end

      private :new, :allocate

      private

      def schema_of(view, schema)
        return [view, 1] if schema.nil?

        name, number, more = schema
        if schema.is_a?(Array) && more.nil? && name.is_a?(String) && number.is_a?(Integer) && (0...2**32).cover?(number)
          return [name, number]
        end

        raise OptionError, "schema is #{schema.inspect}; it must be a name and a number from 0 to 2^32 - 1, as in " \
                           "[\"product\", 3]"
      end

      # The keys that sign. The messages have none of them.
      def secrets(codec, keys)
        unless %i[messagepack json marshal].include?(codec)
          raise OptionError, "codec is #{codec.inspect}; it must be :messagepack, :json or :marshal"
        end
        if (codec == :marshal) == keys.nil?
          raise OptionError, "codec :marshal needs keys, with which its values are signed, and no other codec has keys"
        end
        return if keys.nil?
        return keys.dup if keys.is_a?(Array) && keys.all?(String)

        raise OptionError, "keys is of class #{keys.class}; it must be an Array of String"
      end
    end

    ##
    # :method: hit
    # :call-seq: hit(key, default = nil)
    # The value in memory, or +default+. It never waits, and asks no Redis.

    ##
    # :method: exist?
    # :call-seq: exist?(key)
    # Whether there is a value.

    ##
    # :method: ttl
    # :call-seq: ttl(key)
    # The seconds for which a value is fresh, or +nil+ if there is none.

    ##
    # :method: delete_with_reach
    # :call-seq: delete_with_reach(key)
    # As #delete: whether there was a value, and whether all nodes know that it is removed.

    # The value, or +default+.
    def read(key, default = nil)
      found = hit(key, MISSED)
      found = _read(key) if MISSED.equal?(found)
      MISSED.equal?(found) ? default : found
    end

    # The values that are there, by their keys. One round trip for those that memory does not have.
    def read_multi(*keys)
      by_key(keys, _read_multi(keys))
    end

    # The value, which the block makes if there is none, or if +refresh+ is true. Of many callers one loads.
    #
    #   prices.fetch("apple") { 3 }
    #   prices.fetch("apple", ttl: 60) { |load| load.tag("fruit"); 3 }
    #
    # The block runs in the caller. It gets a Load.
    #
    # With +refresh_ahead+, here or of the view, the first caller that finds the value due loads it while it is fresh, and gets what
    # it has loaded; the others go on with the value. If that load fails, the caller gets the value too.
    def fetch(key, **options)
      unless options[:refresh] || (loads_ahead?(options) && !Loads.leads?(self, key))
        found = hit(key, MISSED)
        return found unless MISSED.equal?(found)
      end
      raise ArgumentError, "fetch needs a block, which loads the value" unless block_given?

      Loads.check(self, key)
      # Before it leads: what a method returns is lost where an interruption comes as it returns.
      load = _load(key)
      begin
        leased = Loads.wait(self, [key]) { load._lease(options) }
        # One that cannot be read is loaded anew.
        leased = Loads.wait(self, [key]) { load._lease({ **options, refresh: true }) } if MISSED.equal?(leased)
        return leased unless load.equal?(leased)

        begin
          value = Loads.lead(self, [key], load) { yield load }
        rescue StandardError, ScriptError => error
          served = load._fail(error)
          MISSED.equal?(served) ? raise : (return served)
        end
        KEEP.equal?(value) ? load._keep : load._complete(value)
      ensure
        # Whatever else has ended the block fails nobody: the next caller leads. Nothing may come before this call.
        load._abandon
      end
    end

    # The values by their keys. The block gets the keys that are nowhere, and a BulkLoad, and returns a Hash of their values.
    #
    #   prices.fetch_multi("apple", "pear") { |missing| missing.to_h { |key| [key, key.length] } }
    #
    # It may be called again for keys that another caller was about to load and did not.
    def fetch_multi(*keys, **options)
      raise ArgumentError, "fetch_multi needs a block, which loads the values" unless block_given?

      keys.each { |key| Loads.check(self, key) }
      load = _bulk_load(keys)
      found = Loads.wait(self, keys) do
        found = load._lease(options)
        while load.equal?(found)
          begin
            wanted = load._wanted.map { |position| keys[position] }
            loaded = Loads.lead(self, wanted, load) { yield(wanted, load) }.to_h
          rescue StandardError, ScriptError => error
            found = load._fail(error)
            MISSED.equal?(found) ? raise : next
          end
          found = load._complete(loaded.keys, loaded.values)
        end
        found
      ensure
        load._abandon
      end
      by_key(keys, found)
    end

    # Stores a value in both tiers, and invalidates the one that other nodes have. Returns whether all nodes know: if not, it
    # holds here, is queued, and is replayed as a deletion.
    def write(key, value, **options)
      _write(key, value, options)
    end

    # Stores values by their keys. Returns as #write does.
    def write_multi(values, **options)
      _write_multi(values.keys, values.values, options)
    end

    # Stores a value if there is none. Returns whether it did.
    def add(key, value, **options)
      _add(key, value, options)
    end

    # Adds to an integer in one step and returns the sum, which keeps the time to live.
    #
    # Without a value it stores +initial+, or returns +nil+ if that is +nil+.
    def increment(key, by = 1, initial: nil, **options)
      _increment(key, by, initial, options)
    end

    # Replaces or removes a value by what the block makes of it, in one step. Returns the value that is there then, or +default+.
    #
    #   stock.update("apple", 0) { |count| count + 7 }
    #   stock.update("apple", 0) { |count| count.zero? ? Larder::KEEP : count - 1 }
    #
    # The block gets the value, or +default+, and returns another one, KEEP or REMOVE. It is called again if another writer comes
    # first: it must be short, have no effects of its own, and not update that key. A value keeps the times and tags of the one that
    # it replaces, or has those of the options, if there are any.
    def update(key, default = nil, **options)
      raise ArgumentError, "update needs a block, which makes the value" unless block_given?

      update = _update(key)
      begin
        step = update._begin(self, options)
        while update.equal?(step)
          found = update._value
          made = yield(MISSED.equal?(found) ? default : found)
          step = decided(update, made)
        end
      ensure
        update._abandon
      end
      MISSED.equal?(step) ? default : step
    end

    # Gives a value another time to live, or another grace period. Returns whether it was there.
    def touch(key, **options)
      _touch(key, options)
    end

    # Removes a value on every node. Returns whether there was one.
    def delete(key)
      delete_with_reach(key).first
    end

    # Removes values on every node. Returns how many there were.
    def delete_multi(keys)
      delete_multi_with_reach(keys).first
    end

    # As #delete_multi: how many there were, and whether all nodes know.
    def delete_multi_with_reach(keys)
      _delete_multi(keys.to_a.dup)
    end

    # Makes a value stale on every node: it stays for its grace period. Returns whether there was one.
    def expire(key)
      _expire(key).first
    end

    # Removes a value and returns it, or +default+: of several callers one gets it.
    def take(key, default = nil)
      taken = _take(key)
      MISSED.equal?(taken) ? default : taken
    end

    def inspect
      "#<#{self.class} #{name.inspect} of #{cache.inspect}>"
    end

    private

    # The next step of an update.
    def decided(update, made)
      return update._keep if KEEP.equal?(made)

      REMOVE.equal?(made) ? update._remove : update._put(made)
    end

    # Whether a fetch with these options loads a value again that is due.
    def loads_ahead?(options)
      options.key?(:refresh_ahead) || _loads_ahead?
    end

    # The values that are there.
    def by_key(keys, values)
      found = {}
      keys.each_with_index do |key, position|
        value = values[position]
        found[key] = value unless MISSED.equal?(value)
      end
      found
    end
  end
end
