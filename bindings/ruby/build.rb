# frozen_string_literal: true

# Builds the native part with cargo and puts it beside the modules, so that `gem build` takes it.
#
#     ruby build.rb                          and then
#     gem build larder_cache.gemspec

require "fileutils"
require "json"
require "open3"

words = %w[cargo build --release --locked --message-format=json --manifest-path] << File.join(__dir__, "Cargo.toml")
printed, status = Open3.capture2(*words)
exit(status.exitstatus) unless status.success?
artifacts = printed.each_line.map { |line| JSON.parse(line) }
library = artifacts.find do |artifact|
  artifact["reason"] == "compiler-artifact" && artifact["target"]["name"] == "larder_ruby"
end
to = File.join(__dir__, "lib/larder/core.so")
# Another file: a process that has loaded the old one keeps it.
FileUtils.rm_f(to)
FileUtils.cp(library["filenames"].first, to)
puts to
