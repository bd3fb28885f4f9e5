# Formula of perigee for Homebrew, filled by make release.{{.Warning}}
class Perigee < Formula
  desc "Gateway between coding agents and the models you have access to"
  homepage "{{.Homepage}}"
  version "{{.Version}}"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "{{url "darwin_arm64"}}"
      sha256 "{{sum "darwin_arm64"}}"
    end
    on_intel do
      url "{{url "darwin_amd64"}}"
      sha256 "{{sum "darwin_amd64"}}"
    end
  end

  on_linux do
    on_arm do
      if Hardware::CPU.is_64_bit?
        url "{{url "linux_arm64"}}"
        sha256 "{{sum "linux_arm64"}}"
      else
        url "{{url "linux_armv6"}}"
        sha256 "{{sum "linux_armv6"}}"
      end
    end
    on_intel do
      url "{{url "linux_amd64"}}"
      sha256 "{{sum "linux_amd64"}}"
    end
  end

  def install
    bin.install "perigee"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/perigee.bash" => "perigee"
    fish_completion.install "completions/perigee.fish"
    zsh_completion.install "completions/_perigee"
    prefix.install "NOTICE"
    doc.install "docs"
  end

  service do
    run [opt_bin/"perigee", "serve"]
    keep_alive true
    log_path var/"log/perigee.log"
    error_log_path var/"log/perigee.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/perigee version")
  end
end
