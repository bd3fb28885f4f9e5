# Package of perigee for Nix, filled by make release. NOT USABLE: no BASE_URL was given. To build it: nix-build -E 'with import <nixpkgs> {}; callPackage ./perigee.nix {}'
{ lib, stdenvNoCC, fetchurl, installShellFiles }:

let
  sources = {
    x86_64-linux = { url = "https://no-base-url.invalid/perigee_0.1.0_linux_amd64.tar.gz"; sha256 = "1111111111111111111111111111111111111111111111111111111111111111"; };
    aarch64-linux = { url = "https://no-base-url.invalid/perigee_0.1.0_linux_arm64.tar.gz"; sha256 = "2222222222222222222222222222222222222222222222222222222222222222"; };
    armv6l-linux = { url = "https://no-base-url.invalid/perigee_0.1.0_linux_armv6.tar.gz"; sha256 = "3333333333333333333333333333333333333333333333333333333333333333"; };
    armv7l-linux = { url = "https://no-base-url.invalid/perigee_0.1.0_linux_armv6.tar.gz"; sha256 = "3333333333333333333333333333333333333333333333333333333333333333"; };
    x86_64-darwin = { url = "https://no-base-url.invalid/perigee_0.1.0_darwin_amd64.tar.gz"; sha256 = "4444444444444444444444444444444444444444444444444444444444444444"; };
    aarch64-darwin = { url = "https://no-base-url.invalid/perigee_0.1.0_darwin_arm64.tar.gz"; sha256 = "5555555555555555555555555555555555555555555555555555555555555555"; };
  };
in
stdenvNoCC.mkDerivation {
  pname = "perigee";
  version = "0.1.0";
  src = fetchurl (sources.${stdenvNoCC.hostPlatform.system} or (throw "perigee has no program for ${stdenvNoCC.hostPlatform.system}"));
  nativeBuildInputs = [ installShellFiles ];
  dontConfigure = true;
  dontBuild = true;
  installPhase = ''
    runHook preInstall
    install -Dm755 perigee $out/bin/perigee
    install -Dm644 -t $out/share/doc/perigee LICENSE NOTICE README.md CHANGELOG.md SECURITY.md
    install -Dm644 -t $out/share/doc/perigee/docs docs/*
    installManPage man/*.1
    installShellCompletion --cmd perigee --bash completions/perigee.bash --fish completions/perigee.fish --zsh completions/_perigee
    runHook postInstall
  '';
  meta = {
    description = "Gateway between coding agents and the models you have access to";
    homepage = "https://no-base-url.invalid";
    license = lib.licenses.asl20;
    mainProgram = "perigee";
    platforms = builtins.attrNames sources;
    sourceProvenance = [ lib.sourceTypes.binaryNativeCode ];
  };
}
