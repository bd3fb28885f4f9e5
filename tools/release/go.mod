// Tools that make a release. The program itself needs none of their modules.
module perigee/tools/release

go 1.26.0

require github.com/CycloneDX/cyclonedx-go v0.12.0

require golang.org/x/mod v0.42.0
