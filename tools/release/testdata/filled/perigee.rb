# Formula of perigee for Homebrew, filled by make release.
class Perigee < Formula
  desc "Gateway between coding agents and the models you have access to"
  homepage "https://example.com/ada/perigee"
  version "0.1.0"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "https://example.com/ada/perigee/releases/download/v0.1.0/perigee_0.1.0_darwin_arm64.tar.gz"
      sha256 "5555555555555555555555555555555555555555555555555555555555555555"
    end
    on_intel do
      url "https://example.com/ada/perigee/releases/download/v0.1.0/perigee_0.1.0_darwin_amd64.tar.gz"
      sha256 "4444444444444444444444444444444444444444444444444444444444444444"
    end
  end

  on_linux do
    on_arm do
      if Hardware::CPU.is_64_bit?
        url "https://example.com/ada/perigee/releases/download/v0.1.0/perigee_0.1.0_linux_arm64.tar.gz"
        sha256 "2222222222222222222222222222222222222222222222222222222222222222"
      else
        url "https://example.com/ada/perigee/releases/download/v0.1.0/perigee_0.1.0_linux_armv6.tar.gz"
        sha256 "3333333333333333333333333333333333333333333333333333333333333333"
      end
    end
    on_intel do
      url "https://example.com/ada/perigee/releases/download/v0.1.0/perigee_0.1.0_linux_amd64.tar.gz"
      sha256 "1111111111111111111111111111111111111111111111111111111111111111"
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
