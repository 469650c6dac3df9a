# frozen_string_literal: true

# Downloads the source of Rails that sources.txt names, and unpacks its tests of cache stores into a folder:
#
#     ruby source.rb FOLDER
#
# It asks the mirror of Debian that the system has, with folders of its own: the sources of the system stay as they are.

require "digest"
require "fileutils"
require "tmpdir"

FILE, SHA256 = File.readlines(File.join(__dir__, "sources.txt"), chomp: true).last.split
NAME = FILE[/\A[^_]+/]
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"

# The mirror of the system, and its release without updates, whose sources stay for as long as the mirror has the release.
def mirror
  format = "$(REPO_URI) $(RELEASE) $(COMPONENT)"
  targets = IO.popen(["apt-get", "indextargets", "--format", format, "Created-By: Packages"], &:readlines)
  main = targets.map(&:split).find { |_, release, component| component == "main" && !release.include?("-") }
  main || abort("apt has no release of Debian with a component main")
end

def apt(folder)
  %w[lists/partial archives/partial parts].each { |name| FileUtils.mkdir_p(File.join(folder, name)) }
  address, release, component = mirror
  signed = " [signed-by=#{KEYS}]" if File.exist?(KEYS)
  File.write(File.join(folder, "parts/source.list"), "deb-src#{signed} #{address} #{release} #{component}\n")
  options = {
    "Dir::Etc::SourceList" => "/dev/null",
    "Dir::Etc::SourceParts" => File.join(folder, "parts"),
    "Dir::State::Lists" => File.join(folder, "lists"),
    "Dir::Cache::Archives" => File.join(folder, "archives"),
    "Dir::Cache::SrcPkgCache" => "",
    "Dir::Cache::PkgCache" => "",
    "APT::Sandbox::User" => "",
  }
  ["apt-get", "--quiet=2", *options.flat_map { |name, value| ["--option", "#{name}=#{value}"] }]
end

def run(*words, **options)
  system(*words, **options) || abort("#{words.first} failed: #{words.join(" ")}")
end

folder = File.expand_path(ARGV.fetch(0) { abort("usage: ruby source.rb FOLDER") })
FileUtils.mkdir_p(folder)
Dir.mktmpdir do |temporary|
  commands = apt(temporary)
  run(*commands, "update")
  run(*commands, "source", "--download-only", "--tar-only", NAME, chdir: temporary)
  archive = File.join(temporary, FILE)
  File.exist?(archive) || abort("the mirror has another version than #{FILE}")
  found = Digest::SHA256.file(archive).hexdigest
  found == SHA256 || abort("#{FILE} has the SHA-256 #{found}; it must be #{SHA256}")
  run("tar", "--extract", "--xz", "--file", archive, "--directory", folder, "--strip-components=1", "--wildcards",
    "*/activesupport/test/cache", "*/activesupport/test/autoloading_fixtures", "*/activesupport/test/*_test_helpers.rb")
end
