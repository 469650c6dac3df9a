# frozen_string_literal: true

require_relative "lib/larder/version"

Gem::Specification.new do |spec|
  spec.name = "larder_cache"
  spec.version = Larder::VERSION
  spec.summary = "A cache for web services that stays coherent: memory in each process, Redis behind it."
  spec.description = "What one process deletes, overwrites or tags away, no other one serves later than a second " \
                     "afterwards. Of many callers of a key that is not there, one loads."
  spec.authors = ["The authors of larder"]
  spec.licenses = ["MIT", "Apache-2.0"]
  spec.required_ruby_version = ">= 3.1"
  # `build.rb` has built the native part for this platform: to install the gem needs Ruby alone.
  spec.platform = Gem::Platform.local
  spec.files = Dir.glob("lib/**/*", base: __dir__).select { |file| File.file?(File.join(__dir__, file)) } + ["README.md"]
  spec.require_paths = ["lib"]
  raise "there is no lib/larder/core.so: run build.rb first" unless spec.files.include?("lib/larder/core.so")
end
