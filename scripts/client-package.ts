/**
 * @module Builds the npm package of the client library: `bun scripts/client-package.ts [FILE]` writes
 * `dist/tassis-VERSION.tgz`, as scripts/release does. The same commit gives the same bytes.
 */
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import manifest from '../package.json' with { type: 'json' }
import { generateClient } from './client.ts'
import { pack, ROOT, run } from './release-tools.ts'

const SOURCES = ['client.ts', 'index.ts']

export const CLIENT_PACKAGE = `tassis-${manifest.version}.tgz`

const MANIFEST = {
  name: manifest.name,
  version: manifest.version,
  description: 'Client of Tassis, the transactional email service that you run yourself',
  license: manifest.license,
  // npm accepts a provenance of the package only for the repository that it names.
  ...('repository' in manifest && { repository: manifest.repository }),
  type: 'module',
  sideEffects: false,
  engines: { node: '>=20.3' },
  types: './index.d.ts',
  exports: { '.': { types: './index.d.ts', default: './index.js' }, './package.json': './package.json' },
  peerDependencies: { '@react-email/render': '>=1' },
  peerDependenciesMeta: { '@react-email/render': { optional: true } },
}

/** Returns the tarball. @param epoch time of its files in Unix seconds */
export async function buildClientPackage(epoch: number): Promise<Uint8Array<ArrayBuffer>> {
  mkdirSync(join(ROOT, 'dist'), { recursive: true })
  // Below the root, so that the compiler finds the types of the packages.
  const folder = mkdtempSync(join(ROOT, 'dist/.client-'))
  try {
    const source = join(folder, 'source')
    const content = join(folder, 'package')
    const { 'api.ts': api = '' } = await generateClient({ hasDocs: true })
    const texts = SOURCES.map(async (name) => [name, await Bun.file(join(ROOT, 'src/client', name)).text()] as const)
    for (const [name, text] of [['api.ts', api] as const, ...(await Promise.all(texts))])
      await Bun.write(join(source, name), text.replaceAll(/(\bfrom '\.\/\w+)\.ts'/g, "$1.js'"))
    compile(source, content)
    writeFileSync(join(content, 'package.json'), `${JSON.stringify(MANIFEST, undefined, 2)}\n`)
    const readme = await Bun.file(join(ROOT, 'src/client/README.md')).text()
    writeFileSync(join(content, 'README.md'), readme.replaceAll('tassis-VERSION.tgz', CLIENT_PACKAGE))
    cpSync(join(ROOT, 'LICENSE'), join(content, 'LICENSE'))
    return pack(folder, 'package', epoch)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Emits JavaScript and types of `source`, with their comments: those of bundlers count. */
function compile(source: string, outDir: string): void {
  const options = {
    ...{ target: 'ES2022', module: 'ESNext', moduleResolution: 'Bundler', lib: 'ESNext', types: 'bun-types' },
    ...{ strict: true, verbatimModuleSyntax: true, skipLibCheck: true, declaration: true, stripInternal: true },
    ...{ rootDir: source, outDir },
  }
  const flags = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)])
  run([join(ROOT, 'node_modules/.bin/tsc'), '--ignoreConfig', ...flags, join(source, 'index.ts')])
}

if (import.meta.main) {
  const file = process.argv[2] ?? join(ROOT, 'dist', CLIENT_PACKAGE)
  const tarball = await buildClientPackage(Number(run(['git', 'log', '-1', '--format=%ct'])))
  await Bun.write(file, tarball)
  console.log(`${file}: ${Math.round(tarball.length / 1024)} KiB; npm install ${file}`)
}
