# frozen_string_literal: true

# The figures of caches as text for Prometheus, with the names that larder's own page of metrics has.
#
#   require "larder/prometheus"
#   Larder::Prometheus.text(cache)

require "larder"

module Larder
  # The figures of this process. Workers that were forked have their own.
  module Prometheus
    # The type of the text, for the header of an answer.
    CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

    # The outcomes of lookups, and the members of the figures of a tier that count them.
    OUTCOMES = { hit: :hits, miss: :misses, unreadable: :unreadable, error: :errors }.freeze

    # What a cache tells.
    Figures = Struct.new(:part, :stats, :coherence) do
      # The tiers that there are.
      def tiers
        { memory: stats[:memory], redis: stats[:redis] }.compact
      end

      # Whether it may miss nothing. One that has not needed Redis yet has missed nothing.
      def coherent?
        case coherence[:mode]
        when "full" then true
        when "unknown" then coherence[:problem].nil?
        else false
        end
      end

      # Whether there are others, of which this process may miss something.
      def shared?
        coherence[:mode] != "memory"
      end
    end

    # A family: its type, its text, and a function that makes its samples, each with labels.
    Family = Struct.new(:type, :text, :samples)

    of_tiers = lambda do |member, text|
      samples = lambda do |figures|
        figures.tiers.reject { |_, tier| tier[member].nil? }.map { |name, tier| [{ tier: name }, tier[member]] }
      end
      Family.new("gauge", text, samples)
    end
    total = ->(member, text) { Family.new("counter", text, ->(figures) { [[{}, figures.stats[member]]] }) }

    FAMILIES = {
      "larder_tier_lookups_total" => Family.new("counter", "Lookups by outcome.", lambda do |figures|
        figures.tiers.flat_map do |name, tier|
          OUTCOMES.map { |outcome, member| [{ outcome: outcome, tier: name }, tier[member]] }
        end
      end),
      "larder_tier_operations_total" => Family.new("counter", "Operations by name.", lambda do |figures|
        { load: :loads, failure: :load_failures }.map do |operation, member|
          [{ operation: operation, tier: "origin" }, figures.stats[member]]
        end
      end),
      "larder_tier_entries" => of_tiers.call(:entries, "Entries in the tier."),
      "larder_tier_bytes" => of_tiers.call(:bytes, "Bytes in the tier."),
      "larder_tier_capacity_bytes" => of_tiers.call(:capacity, "Maximum number of bytes in the tier."),
      "larder_coalesced_total" => total.call(:coalesced, "Fetches that waited for the load of another caller."),
      "larder_refused_loads_total" =>
        total.call(:refused, "Loads whose result was not stored because of an invalidation."),
      "larder_stale_answers_total" => total.call(:stale, "Stale values served because a load failed or was slow."),
      "larder_coherent" => Family.new(
        "gauge", "1 if this process has what others invalidated, or has not needed Redis yet; 0 if it may miss some.",
        lambda do |figures|
          figures.shared? ? [[{}, figures.coherent? ? 1 : 0]] : []
        end
      ),
      "larder_pending_invalidations" => Family.new(
        "gauge", "Invalidations that are done in this process and not yet confirmed by Redis.",
        ->(figures) { figures.shared? ? [[{}, figures.coherence[:pending_invalidations]]] : [] }
      )
    }.freeze
    private_constant :OUTCOMES, :Figures, :Family, :FAMILIES

    # The figures of these caches. The label +part+ is the namespace of each. A cache that no call has needed yet is started, and one
    # that is closed has none.
    def self.text(*caches)
      figures = caches.filter_map do |cache|
        Figures.new(cache.namespace, cache.stats, cache.coherence)
      rescue CacheClosed
        nil
      end
      FAMILIES.flat_map do |name, family|
        samples = figures.flat_map do |of_cache|
          family.samples.call(of_cache).map do |labels, value|
            labels = { part: of_cache.part, **labels }.sort.map { |label, text| "#{label}=#{text.to_s.inspect}" }
            "#{name}{#{labels.join(',')}} #{value}\n"
          end
        end
        ["# HELP #{name} #{family.text}\n", "# TYPE #{name} #{family.type}\n", *samples]
      end.join
    end
  end
end
