// Writes the extension in the current folder as a .vsix, a zip file with two descriptions: node pack.mjs [FILE]. It has what "files" of
// package.json names, and the same input gives the same bytes.
//
// vsce does the same with 285 packages; what it checks beyond this is for the Marketplace.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { crc32, deflateRawSync } from "node:zlib";

const target = process.argv[2] ?? "../bin/perigee.vsix";
const manifest = JSON.parse(readFileSync("package.json", "utf8"));
const license = readFileSync(join(import.meta.dirname, "..", "LICENSE"));
const readme = existsSync("README.md") ? readFileSync("README.md") : Buffer.from(`${manifest.description}\n`);

// What only development needs stays out of the package.
const { scripts: _scripts, devDependencies: _dev, dependencies: _bundled, private: _private, files, ...published } = manifest;

const escape = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

const description = `<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011" xmlns:d="http://schemas.microsoft.com/developer/vsx-schema-design/2011">
  <Metadata>
    <Identity Language="en-US" Id="${escape(manifest.name)}" Version="${escape(manifest.version)}" Publisher="${escape(manifest.publisher)}"/>
    <DisplayName>${escape(manifest.displayName)}</DisplayName>
    <Description xml:space="preserve">${escape(manifest.description)}</Description>
    <Categories>${escape(manifest.categories.join(","))}</Categories>
    <GalleryFlags>Public</GalleryFlags>
    <License>extension/LICENSE.txt</License>
    <Properties>
      <Property Id="Microsoft.VisualStudio.Code.Engine" Value="${escape(manifest.engines.vscode)}"/>
      <Property Id="Microsoft.VisualStudio.Code.ExtensionKind" Value="${escape(manifest.extensionKind.join(","))}"/>
    </Properties>
  </Metadata>
  <Installation>
    <InstallationTarget Id="Microsoft.VisualStudio.Code"/>
  </Installation>
  <Dependencies/>
  <Assets>
    <Asset Type="Microsoft.VisualStudio.Code.Manifest" Path="extension/package.json" Addressable="true"/>
    <Asset Type="Microsoft.VisualStudio.Services.Content.Details" Path="extension/readme.md" Addressable="true"/>
    <Asset Type="Microsoft.VisualStudio.Services.Content.License" Path="extension/LICENSE.txt" Addressable="true"/>
  </Assets>
</PackageManifest>
`;

const types = `<?xml version="1.0" encoding="utf-8"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension=".json" ContentType="application/json"/><Default Extension=".js" ContentType="application/javascript"/><Default Extension=".md" ContentType="text/markdown"/><Default Extension=".txt" ContentType="text/plain"/><Default Extension=".vsixmanifest" ContentType="text/xml"/></Types>
`;

const archive = zip([
  ["extension.vsixmanifest", Buffer.from(description)],
  ["[Content_Types].xml", Buffer.from(types)],
  ["extension/package.json", Buffer.from(JSON.stringify(published, null, 2) + "\n")],
  ["extension/readme.md", readme],
  ["extension/LICENSE.txt", license],
  ...files.map((file) => [`extension/${file}`, readFileSync(file)]),
]);
mkdirSync(dirname(target), { recursive: true });
writeFileSync(target, archive);
console.log(`${target}: ${published.publisher}.${published.name} ${published.version}, ${archive.length} bytes`);

// zip is an archive of the files with the date of 1980-01-01, the earliest that the format has.
function zip(files) {
  const date = (1 << 5) | 1;
  const bodies = [];
  const directory = [];
  let offset = 0;
  for (const [name, content] of files) {
    const path = Buffer.from(name);
    const packed = deflateRawSync(content, { level: 9 });
    const common = Buffer.alloc(26); // version, flags, method, time, date, checksum, sizes, lengths of name and extra field
    common.writeUInt16LE(20, 0);
    common.writeUInt16LE(0x0800, 2); // names are UTF-8
    common.writeUInt16LE(8, 4);
    common.writeUInt16LE(date, 8);
    common.writeUInt32LE(crc32(content), 10);
    common.writeUInt32LE(packed.length, 14);
    common.writeUInt32LE(content.length, 18);
    common.writeUInt16LE(path.length, 22);
    bodies.push(Buffer.from("PK\x03\x04", "latin1"), common, path, packed);
    const rest = Buffer.alloc(14); // comment, disk, attributes, offset
    rest.writeUInt32LE((0o100644 << 16) >>> 0, 6);
    rest.writeUInt32LE(offset, 10);
    directory.push(Buffer.from("PK\x01\x02\x14\x03", "latin1"), common, rest, path);
    offset += 30 + path.length + packed.length;
  }
  const central = Buffer.concat(directory);
  const end = Buffer.alloc(18);
  end.writeUInt16LE(files.length, 4);
  end.writeUInt16LE(files.length, 6);
  end.writeUInt32LE(central.length, 8);
  end.writeUInt32LE(offset, 12);
  return Buffer.concat([...bodies, central, Buffer.from("PK\x05\x06", "latin1"), end]);
}
