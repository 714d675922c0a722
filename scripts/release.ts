/**
 * @module Builds a release: for each target an archive with the executable, `contrib/` and the licences, and a Debian
 * package; the npm package of the client library; `SHA256SUMS`, an SBOM (CycloneDX) and provenance (SLSA) for all of them. The same
 * commit gives the same bytes, on any machine and in
 * any folder. Gets the Bun of each target from npm; `scripts/runtimes/bun.lock` names their hashes.
 */
import { createHash, createPrivateKey } from 'node:crypto'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { VERSION } from '../src/app/version.ts'
import { buildClientPackage, CLIENT_PACKAGE } from './client-package.ts'
import { ARCHITECTURES, buildDeb, debName } from './deb.ts'
import { type BuildInputs, formatStatement, type Subject, signStatement } from './provenance.ts'
import { publish, readChanges } from './publish.ts'
import { pack, ReleaseError, ROOT, run } from './release-tools.ts'
import { formatLicences, formatSbom, readComponents } from './sbom.ts'

/** Target -> package with its Bun. */
const RUNTIMES: Readonly<Record<string, string>> = {
  'linux-x64': '@oven/bun-linux-x64',
  'linux-arm64': '@oven/bun-linux-aarch64',
}

const HELP = `Usage: scripts/release [--tag TAG] [--target TARGET]... [--outdir FOLDER] [--key FILE] [--allow-dirty] [--publish]

Builds a release of the checked-out commit:
  tassis-VERSION-TARGET.tar.gz     the executable, contrib/, and the licences of what it contains
  tassis_VERSION_ARCHITECTURE.deb  the same for Debian and Ubuntu: unit, user, settings, completion, man page
  tassis-VERSION.tgz               the client library, for npm publish
  tassis-VERSION.cdx.json          what the executable contains (SBOM, CycloneDX 1.6)
  tassis-VERSION.provenance.json   from what it was built (SLSA provenance 1, not signed)
  tassis-VERSION.provenance.dsse.json   the same, signed, with --key
  SHA256SUMS                       checksums of all of them: sha256sum --check SHA256SUMS

  --tag TAG         requires that the tag is this commit's and v with this version, and that CHANGELOG.md has it
  --target TARGET   ${Object.keys(RUNTIMES).join(' or ')}; default: both
  --outdir FOLDER   default: dist/release, which is emptied first
  --key FILE        private key (PEM; Ed25519, ECDSA or RSA) that signs the provenance
  --allow-dirty     also with changes that are not committed: for a trial, because nobody can build it again
  --publish         afterwards: scripts/publish

Two builds of a commit are the same: compare SHA256SUMS of two machines.`

const sha256 = (content: Uint8Array): string => createHash('sha256').update(content).digest('hex')

/** Hashes of the packages with Bun, as locked. Throws when this Bun has another version: it makes the bytecode. */
export function readRuntimes(): Readonly<Record<string, string>> {
  const text = readFileSync(join(ROOT, 'scripts/runtimes/bun.lock'), 'utf8')
  const { packages } = Bun.JSONC.parse(text) as { packages: Record<string, [string, string, object, string]> }
  return Object.fromEntries(
    Object.entries(packages).map(([name, [id, , , integrity]]) => {
      const version = id.slice(id.lastIndexOf('@') + 1)
      if (version !== Bun.version)
        throw new ReleaseError(
          `This Bun is ${Bun.version}, but scripts/runtimes has ${version}: run the release with Bun ${version}, or change both files there.`,
        )
      return [name, integrity.replace(/^sha512-/, '')]
    }),
  )
}

/** Installs the packages with Bun for all processors into `folder`; returns the path of a target's Bun. */
function installRuntimes(folder: string): (target: string) => string {
  cpSync(join(ROOT, 'scripts/runtimes'), folder, { recursive: true })
  run(['bun', 'install', '--frozen-lockfile', '--os=linux', '--cpu=*'], { cwd: folder })
  return (target) => join(folder, 'node_modules', RUNTIMES[target] ?? '', 'bin/bun')
}

async function main(): Promise<void> {
  const { values: args } = parseArgs({
    options: {
      tag: { type: 'string' },
      publish: { type: 'boolean' },
      target: { type: 'string', multiple: true, default: Object.keys(RUNTIMES) },
      outdir: { type: 'string', default: join(ROOT, 'dist/release') },
      key: { type: 'string' },
      'allow-dirty': { type: 'boolean' },
      help: { type: 'boolean' },
    },
  })
  if (args.help) {
    console.log(HELP)
    return
  }
  const unknown = args.target.find((target) => !(target in RUNTIMES))
  if (unknown !== undefined)
    throw new ReleaseError(`There is no target ${unknown}; there are ${Object.keys(RUNTIMES).join(' and ')}.`)
  if (args.tag !== undefined) checkTag(args.tag)
  const isDirty = run(['git', 'status', '--porcelain']) !== ''
  if (isDirty && !args['allow-dirty'])
    throw new ReleaseError('There are changes that are not committed: commit them, or try with --allow-dirty.')
  const key = args.key === undefined ? undefined : createPrivateKey(readFileSync(args.key))
  const build: BuildInputs = {
    version: VERSION,
    commit: run(['git', 'rev-parse', 'HEAD']),
    epoch: Number(run(['git', 'log', '-1', '--format=%ct'])),
    bunVersion: Bun.version,
    targets: args.target,
    lockSha256: sha256(readFileSync(join(ROOT, 'bun.lock'))),
    runtimes: readRuntimes(),
  }
  const outdir = resolve(args.outdir)
  rmSync(outdir, { recursive: true, force: true })
  mkdirSync(outdir, { recursive: true })
  const folder = mkdtempSync(join(tmpdir(), 'tassis-release-'))
  try {
    await writeRelease(build, folder, (name, content) => writeFileSync(join(outdir, name), content), key)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  console.log(run(['ls', '-l', '--human-readable', '--no-group', outdir]))
  console.log(`In ${outdir}.${key === undefined ? ' The provenance is not signed: see --key.' : ''}`)
  if (args.publish) publish(outdir)
}

/** A tag names one version, whose changes are written down. */
function checkTag(tag: string): void {
  if (tag !== `v${VERSION}`)
    throw new ReleaseError(`The tag is ${tag}, but package.json has the version ${VERSION}: use the tag v${VERSION}.`)
  readChanges(VERSION)
  if (!run(['git', 'tag', '--points-at', 'HEAD']).split('\n').includes(tag))
    throw new ReleaseError(`The checked-out commit has no tag ${tag}: git tag ${tag}, or check that tag out.`)
}

async function writeRelease(
  build: BuildInputs,
  folder: string,
  write: (name: string, content: string | Uint8Array) => void,
  key: ReturnType<typeof createPrivateKey> | undefined,
): Promise<void> {
  const subjects: Subject[] = []
  const add = (name: string, content: string | Uint8Array): void => {
    write(name, content)
    subjects.push({ name, sha256: sha256(typeof content === 'string' ? Buffer.from(content) : content) })
  }
  const components = readComponents(ROOT)
  const runtimeOf = installRuntimes(join(folder, 'runtimes'))
  for (const target of build.targets) {
    const name = `tassis-${build.version}-${target}`
    const content = join(folder, name)
    mkdirSync(content)
    run(
      [
        'bun',
        'scripts/build.ts',
        '--target',
        target,
        '--runtime',
        runtimeOf(target),
        '--outfile',
        join(content, 'tassis'),
      ],
      { env: { SOURCE_DATE_EPOCH: String(build.epoch) } },
    )
    for (const path of ['contrib', 'CHANGELOG.md', 'LICENSE'])
      cpSync(join(ROOT, path), join(content, path), { recursive: true })
    const licences = formatLicences(components, build)
    writeFileSync(join(content, 'THIRD-PARTY-LICENSES.txt'), licences)
    add(`${name}.tar.gz`, pack(folder, name, build.epoch))
    if (Bun.which('dpkg-deb') === null) {
      console.warn('No Debian package, because dpkg-deb is not installed: apt-get install dpkg')
      continue
    }
    const architecture = ARCHITECTURES[target] ?? ''
    const deb = { ...build, architecture, licences, executable: join(content, 'tassis') }
    add(debName(deb), buildDeb(deb, join(folder, `deb-${architecture}`)))
  }
  add(CLIENT_PACKAGE, await buildClientPackage(build.epoch))
  add(`tassis-${build.version}.cdx.json`, formatSbom(components, build))
  const statement = formatStatement(subjects, build)
  add(`tassis-${build.version}.provenance.json`, statement)
  if (key) add(`tassis-${build.version}.provenance.dsse.json`, signStatement(statement, key))
  write('SHA256SUMS', subjects.map(({ name, sha256: sum }) => `${sum}  ${name}\n`).join(''))
}

if (import.meta.main) {
  try {
    await main()
  } catch (error) {
    if (!(error instanceof ReleaseError)) throw error
    console.error(`scripts/release: ${error.message}`)
    process.exitCode = 1
  }
}
