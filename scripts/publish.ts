/**
 * @module Publishes a release that scripts/release has built: the image of both architectures at the registry of GitHub,
 * the client library at npm, then the release with its files at GitHub. Each step can be repeated.
 */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import manifest from '../package.json' with { type: 'json' }
import { VERSION } from '../src/app/version.ts'
import { CLIENT_PACKAGE } from './client-package.ts'
import { ARCHITECTURES } from './deb.ts'
import { ReleaseError, ROOT, run } from './release-tools.ts'

const HELP = `Usage: scripts/publish [--outdir FOLDER] [--dry-run]

Publishes what scripts/release has built, with docker (buildx), npm and gh:
  ghcr.io/OWNER/tassis:VERSION   the Dockerfile with the executables of the archives; also :latest of a final version
  npm                            the client library; only with NODE_AUTH_TOKEN
  GitHub                         a release of the tag vVERSION with all files

  --outdir FOLDER   default: dist/release
  --dry-run         prints the commands

GITHUB_REPOSITORY is OWNER/NAME; with GITHUB_TOKEN it signs in at ghcr.io and GitHub.`

/** The section of CHANGELOG.md. @throws ReleaseError when there is none */
export function readChanges(version: string, changelog = readFileSync(join(ROOT, 'CHANGELOG.md'), 'utf8')): string {
  const section = changelog.split(/^## /m).find((text) => text.startsWith(`${version}\n`))
  if (section === undefined) throw new ReleaseError(`CHANGELOG.md has no section ## ${version}: write it first.`)
  return section.slice(version.length).trim()
}

export interface Publication {
  readonly version: string
  /** OWNER/NAME at GitHub. */
  readonly repository: string
  readonly outdir: string
  readonly epoch: number
  readonly commit: string
  /** For executables: `ARCHITECTURE/dist/tassis`, below it. */
  readonly folder: string
  /** A release of this tag is at GitHub, from an earlier run. */
  readonly isReleased: boolean
  readonly hasNpmToken: boolean
  /** npm accepts it from GitHub Actions alone, for the repository that the package names. */
  readonly hasProvenance: boolean
}

/** The commands that publish, in order. */
export function listCommands(publication: Publication, changes: string): (readonly string[])[] {
  const { version, repository, outdir, epoch, commit, folder, isReleased, hasNpmToken, hasProvenance } = publication
  const image = `ghcr.io/${repository.split('/')[0]?.toLowerCase()}/tassis:`
  const isFinal = !version.includes('-')
  const tags = [version, ...(isFinal ? ['latest'] : [])].flatMap((tag) => ['--tag', image + tag])
  const architectures = Object.values(ARCHITECTURES)
  const release = readdirSync(outdir).map((file) => join(outdir, file))
  return [
    ...architectures.map((architecture) => [
      ...['docker', 'buildx', 'build', '--platform', `linux/${architecture}`, '--push'],
      ...['--provenance', 'mode=max', '--sbom', 'true'],
      // In place of the stage `build`: the executables of the archives, not other ones.
      ...['--build-context', `build=${join(folder, architecture)}`],
      ...['--build-arg', `COMMIT=${commit}`, '--build-arg', `SOURCE_DATE_EPOCH=${epoch}`],
      ...['--tag', `${image}${version}-${architecture}`, '.'],
    ]),
    ['docker', 'buildx', 'imagetools', 'create', ...tags, ...architectures.map((name) => `${image}${version}-${name}`)],
    ...(hasNpmToken
      ? [
          [
            ...['npm', 'publish', join(outdir, CLIENT_PACKAGE), '--access', 'public'],
            ...['--tag', isFinal ? 'latest' : 'next', ...(hasProvenance ? ['--provenance'] : [])],
          ],
        ]
      : []),
    isReleased
      ? ['gh', 'release', 'upload', `v${version}`, '--repo', repository, '--clobber', ...release]
      : [
          ...['gh', 'release', 'create', `v${version}`, '--repo', repository, '--verify-tag'],
          ...['--title', `Tassis ${version}`, '--notes', changes, ...(isFinal ? [] : ['--prerelease']), ...release],
        ],
  ]
}

/** Whether an earlier run published this version at npm. */
const isAtNpm = (): boolean =>
  Bun.spawnSync(['npm', 'view', `tassis@${VERSION}`, 'version'])
    .stdout.toString()
    .trim() === VERSION

/** @throws ReleaseError when a file differs from its checksum, a tool is missing or fails */
export function publish(outdir: string, { isDryRun = false } = {}): void {
  const changes = readChanges(VERSION)
  const environment = process.env
  const repository = environment['GITHUB_REPOSITORY'] ?? ''
  if (!/^[^/]+\/[^/]+$/.test(repository))
    throw new ReleaseError('Set GITHUB_REPOSITORY to OWNER/NAME of the repository at GitHub.')
  if (!existsSync(join(outdir, 'SHA256SUMS')))
    throw new ReleaseError(`${outdir} has no release: build it with scripts/release.`)
  run(['sha256sum', '--check', '--quiet', 'SHA256SUMS'], { cwd: outdir })
  const missing = isDryRun ? [] : ['docker', 'npm', 'gh'].filter((tool) => Bun.which(tool) === null)
  if (missing.length > 0) throw new ReleaseError(`Not installed: ${missing.join(', ')}. Nothing was published.`)
  const folder = mkdtempSync(join(tmpdir(), 'tassis-publish-'))
  try {
    for (const [target, architecture] of Object.entries(ARCHITECTURES)) {
      const name = `tassis-${VERSION}-${target}`
      const dist = join(folder, architecture, 'build/dist')
      mkdirSync(dist, { recursive: true })
      const archive = join(outdir, `${name}.tar.gz`)
      run(['tar', '--extract', `--file=${archive}`, `--directory=${dist}`, '--strip-components=1', `${name}/tassis`])
    }
    const token = environment['GITHUB_TOKEN']
    if (token && !isDryRun)
      run(['sh', '-c', 'echo "$GITHUB_TOKEN" | docker login ghcr.io --username token --password-stdin'])
    const commands = listCommands(
      {
        ...{ version: VERSION, repository, outdir, folder },
        epoch: Number(run(['git', 'log', '-1', '--format=%ct'])),
        commit: run(['git', 'rev-parse', '--short=12', 'HEAD']),
        hasNpmToken: Boolean(environment['NODE_AUTH_TOKEN']) && (isDryRun || !isAtNpm()),
        isReleased: !isDryRun && Bun.spawnSync(['gh', 'release', 'view', `v${VERSION}`, '--repo', repository]).success,
        hasProvenance: environment['GITHUB_ACTIONS'] === 'true' && 'repository' in manifest,
      },
      changes,
    )
    for (const command of commands) {
      console.log(command.map((word) => (/\s/.test(word) ? `${JSON.stringify(word.slice(0, 60))}…` : word)).join(' '))
      if (!isDryRun) run(command)
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

if (import.meta.main) {
  const { values: args } = parseArgs({
    options: {
      outdir: { type: 'string', default: join(ROOT, 'dist/release') },
      'dry-run': { type: 'boolean' },
      help: { type: 'boolean' },
    },
  })
  if (args.help) console.log(HELP)
  else
    try {
      publish(resolve(args.outdir), { isDryRun: args['dry-run'] ?? false })
    } catch (error) {
      if (!(error instanceof ReleaseError)) throw error
      console.error(`scripts/publish: ${error.message}`)
      process.exitCode = 1
    }
}
