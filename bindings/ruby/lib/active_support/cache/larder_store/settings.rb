# frozen_string_literal: true

# The options of the store: its own, those of Rails, and those of larder; and the view that they lead to.

require "openssl"

module ActiveSupport
  module Cache
    class LarderStore < Store
      module Settings # :nodoc:
        # The store's own, with their defaults.
        OWN = {
          name: "rails",
          view: "rails",
          codec: :marshal,
          secret: nil,
          shared: false,
          store_in_transaction: true,
          local_cache: false,
          error_handler: nil,
        }.freeze
        # Those that Rails has for every call.
        OF_RAILS = %i[namespace expires_in race_condition_ttl skip_nil].freeze
        # The seconds of a value that does not expire: 8,000 years, as larder has no value without a TTL.
        FOREVER = 2_920_000 * 86_400
        # The shortest TTL of larder, in seconds.
        SHORTEST = 0.001
        # The seconds for which a store does not repeat its warning about Redis.
        QUIET = 10
        # Keys are derived for this, so they are used for nothing else.
        PURPOSE = "ActiveSupport::Cache::LarderStore: signed values"

        private
          # The options by whose they are: of the store, of Rails, of larder.
          def split(options)
            own = OWN.to_h { |name, default| [name, options.fetch(name, default)] }
            rails = options.slice(*OF_RAILS)
            larder = options.except(*OWN.keys, *OF_RAILS)
            check(own, larder)
            [own, rails, compressing(larder)]
          end

          def check(own, larder)
            refuse(:ttl, larder[:ttl], "it must not be given: expires_in is the time to live") if larder.key?(:ttl)
            refuse(:coder, larder[:coder], "the codec is :marshal or :messagepack") if larder.key?(:coder)
            %i[store_in_transaction local_cache shared].each do |name|
              refuse(name, own[name], "it must be true or false") unless [true, false].include?(own[name])
            end
            return if %i[marshal messagepack].include?(own[:codec])

            refuse(:codec, own[:codec], "it must be :marshal or :messagepack")
          end

          def refuse(name, value, reason)
            raise Larder::OptionError, "#{name} is #{value.inspect}; #{reason}"
          end

          # The names that Rails has for compression, as larder names it.
          def compressing(larder)
            compress, threshold = larder.delete(:compress), larder.delete(:compress_threshold)
            larder[:compression] = compress ? "lz4" : "none" unless compress.nil?
            larder[:compress_from_bytes] = Integer(threshold) if threshold
            larder
          end

          # Not before the first call: the application may have no secret while it is configured.
          def view
            @view ||= @larder.view(@view_name, codec: @codec, shared: @shared, keys: @codec == :marshal ? keys : nil)
          end

          # The keys that sign values: the first one writes, all read.
          def keys
            secret = @secret.respond_to?(:call) ? @secret.call : @secret
            secrets = Array(secret || secret_of_application).map(&:to_s)
            if secrets.empty? || secrets.any?(&:empty?)
              raise Larder::OptionError, "secret is missing: the codec :marshal signs values by the secret_key_base of the " \
                "application, or by the option secret"
            end
            secrets.map { |text| OpenSSL::HMAC.digest("SHA256", text, PURPOSE) }
          end

          def secret_of_application
            ::Rails.application&.secret_key_base if defined?(::Rails.application)
          end

          # The options of larder for what is stored. `nil` if a value with these times is not stored.
          def lifetime(options)
            ttl = ttl_of(options)
            return if ttl && ttl <= 0

            call = options.slice(:grace, :retry_after, :soft_timeout, :hard_timeout, :jitter)
            call[:tags] = Array(options[:tags]) if options[:tags]
            race = options[:race_condition_ttl].to_f
            call = { grace: race, retry_after: race, soft_timeout: 0 }.merge(call) if ttl && race.positive?
            call[:ttl] = ttl ? ttl.clamp(SHORTEST, FOREVER) : FOREVER
            call
          end

          # Seconds; `nil` is for ever.
          def ttl_of(options)
            return options[:expires_at].to_f - Time.now.to_f if options[:expires_at]

            options[:expires_in]&.to_f
          end

          # A value with its version.
          def versioned(value, version)
            return Versioned.new(version, value) if @codec == :marshal

            raise Larder::OptionError, "version is #{version.inspect}; values of the codec :messagepack have none, as other " \
              "languages read them"
          end

          # The default for `error_handler`.
          def warn_of(method:, returning:, exception:)
            now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
            return if now < @quiet_until

            # Not for each call: there are as many as requests.
            @quiet_until = now + QUIET
            # In Rails nobody gives stores a logger.
            log = logger || Larder.logger
            log&.warn("LarderStore: #{method} returned #{returning.inspect}: #{exception.class}: #{exception.message}")
          end
      end
    end
  end
end
