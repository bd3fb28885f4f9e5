# Package of perigee for Nix, filled by make release.{{.Warning}} To build it: nix-build -E 'with import <nixpkgs> {}; callPackage ./perigee.nix {}'
{ lib, stdenvNoCC, fetchurl, installShellFiles }:

let
  sources = {
    x86_64-linux = { url = "{{url "linux_amd64"}}"; sha256 = "{{sum "linux_amd64"}}"; };
    aarch64-linux = { url = "{{url "linux_arm64"}}"; sha256 = "{{sum "linux_arm64"}}"; };
    armv6l-linux = { url = "{{url "linux_armv6"}}"; sha256 = "{{sum "linux_armv6"}}"; };
    armv7l-linux = { url = "{{url "linux_armv6"}}"; sha256 = "{{sum "linux_armv6"}}"; };
    x86_64-darwin = { url = "{{url "darwin_amd64"}}"; sha256 = "{{sum "darwin_amd64"}}"; };
    aarch64-darwin = { url = "{{url "darwin_arm64"}}"; sha256 = "{{sum "darwin_arm64"}}"; };
  };
in
stdenvNoCC.mkDerivation {
  pname = "perigee";
  version = "{{.Version}}";
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
    homepage = "{{.Homepage}}";
    license = lib.licenses.asl20;
    mainProgram = "perigee";
    platforms = builtins.attrNames sources;
    sourceProvenance = [ lib.sourceTypes.binaryNativeCode ];
  };
}
