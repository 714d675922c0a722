/**
 * @module What the executable contains besides our code: the packages of bun.lock that `dependencies` need, and Bun.
 * As CycloneDX 1.6 (ECMA-424) and as the licences that must accompany a copy. Needs installed packages, for licences.
 */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface Component {
  /** Key in bun.lock: the name, after those of the packages in whose folder it is, such as `mailauth/libmime`. */
  readonly key: string
  readonly name: string
  readonly version: string
  /** SHA-512 of the package in the registry, base64. */
  readonly sha512: string
  /** As its package.json declares it, an SPDX expression. */
  readonly licence: string
  readonly licenceText: string
  /** Keys of the packages that it needs. */
  readonly needs: readonly string[]
}

export interface Release {
  readonly version: string
  readonly commit: string
  /** Unix time of the commit in seconds; the time of the build. */
  readonly epoch: number
  readonly bunVersion: string
}

type Names = Readonly<Record<string, string>>
interface LockInfo {
  readonly dependencies?: Names
  readonly optionalDependencies?: Names
  readonly peerDependencies?: Names
  readonly optionalPeers?: readonly string[]
}
interface Lock {
  readonly packages: Readonly<
    Record<string, readonly [id: string, registry: string, info: LockInfo, integrity: string]>
  >
}

/** Reads the packages in the executable, sorted by key. Throws when one is not installed. */
export function readComponents(root: string): Component[] {
  const lock = Bun.JSONC.parse(readFileSync(join(root, 'bun.lock'), 'utf8')) as Lock
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { readonly dependencies: Names }
  const found = new Map<string, Component>()
  const visit = (key: string): void => {
    if (found.has(key)) return
    const [id = '', , info = {}, integrity = ''] = lock.packages[key] ?? []
    const at = id.lastIndexOf('@')
    const needs = listNeeds(info).flatMap((name) => findKey(lock, key, name) ?? [])
    const installed = readInstalled(join(root, folderOf(key)))
    const sha512 = integrity.replace(/^sha512-/, '')
    found.set(key, { key, name: id.slice(0, at), version: id.slice(at + 1), sha512, needs, ...installed })
    for (const need of needs) visit(need)
  }
  for (const name of Object.keys(manifest.dependencies)) visit(name)
  return [...found.values()].sort((a, b) => (a.key < b.key ? -1 : 1))
}

const listNeeds = ({ dependencies, optionalDependencies, peerDependencies, optionalPeers }: LockInfo): string[] => [
  ...Object.keys({ ...dependencies, ...optionalDependencies }),
  ...Object.keys(peerDependencies ?? {}).filter((name) => !optionalPeers?.includes(name)),
]

/** The package that `name` means inside the package `from`: the one in the nearest folder. */
function findKey({ packages }: Lock, from: string, name: string): string | undefined {
  const folders = splitKey(from)
  for (let depth = folders.length; depth >= 0; depth--) {
    const key = [...folders.slice(0, depth), name].join('/')
    if (packages[key]) return key
  }
  return undefined
}

/** Splits `@a/b/c` into `@a/b` and `c`. */
const splitKey = (key: string): string[] => key.match(/(?:@[^/]+\/)?[^/]+/g) ?? []

const folderOf = (key: string): string =>
  splitKey(key)
    .map((name) => `node_modules/${name}`)
    .join('/')

function readInstalled(folder: string): Pick<Component, 'licence' | 'licenceText'> {
  const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
    readonly license?: string | { readonly type: string }
  }
  const { license = 'NOASSERTION' } = manifest
  const files = readdirSync(folder).filter((name) => /^(?:licen[cs]e|copying|notice)/i.test(name))
  const texts = files.sort().map((name) => readFileSync(join(folder, name), 'utf8').trim())
  return { licence: typeof license === 'string' ? license : license.type, licenceText: texts.join('\n\n') }
}

const purlOf = (name: string, version: string): string => `pkg:npm/${name.replace('@', '%40')}@${version}`

/** Formats the components as CycloneDX 1.6 JSON. The same release gives the same text. */
export function formatSbom(components: readonly Component[], { version, commit, epoch, bunVersion }: Release): string {
  const self = `tassis@${version}`
  const bun = `bun@${bunVersion}`
  const content = {
    metadata: {
      timestamp: new Date(epoch * 1000).toISOString(),
      component: {
        type: 'application',
        'bom-ref': self,
        name: 'tassis',
        version,
        licenses: [{ expression: 'MIT' }],
        properties: [{ name: 'tassis:commit', value: commit }],
      },
    },
    components: [
      {
        type: 'platform',
        'bom-ref': bun,
        name: 'bun',
        version: bunVersion,
        purl: `pkg:github/oven-sh/bun@bun-v${bunVersion}`,
        licenses: [{ expression: 'MIT AND LGPL-2.0-or-later' }],
      },
      ...components.map(toSbomComponent),
    ],
    dependencies: [
      {
        ref: self,
        dependsOn: [bun, ...components.filter(({ key }) => splitKey(key).length === 1).map(({ key }) => key)],
      },
      { ref: bun },
      ...components.map(({ key, needs }) => ({ ref: key, dependsOn: [...new Set(needs)].sort() })),
    ],
  }
  const serialNumber = `urn:uuid:${toUuid(createHash('sha256').update(JSON.stringify(content)).digest())}`
  return `${JSON.stringify({ bomFormat: 'CycloneDX', specVersion: '1.6', serialNumber, version: 1, ...content }, null, 1)}\n`
}

function toSbomComponent({ key, name, version, licence, sha512 }: Component) {
  const [, scope, bare = name] = /^(@[^/]+)\/(.+)$/.exec(name) ?? []
  return {
    type: 'library',
    'bom-ref': key,
    ...(scope !== undefined && { group: scope }),
    name: bare,
    version,
    purl: purlOf(name, version),
    licenses: [{ expression: licence }],
    hashes: [{ alg: 'SHA-512', content: Buffer.from(sha512, 'base64').toString('hex') }],
  }
}

/** A UUID of version 8 (RFC 9562 §5.8) from the first 16 octets of a hash. */
function toUuid(hash: Buffer): string {
  hash[6] = ((hash[6] ?? 0) & 0x0f) | 0x80
  hash[8] = ((hash[8] ?? 0) & 0x3f) | 0x80
  return hash.toString('hex', 0, 16).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

/** Formats the licences of all packages, each text once. */
export function formatLicences(components: readonly Component[], { bunVersion }: Pick<Release, 'bunVersion'>): string {
  const byText = Map.groupBy(components, ({ licence, licenceText }) => licenceText || `${licence}\n`)
  const packages = [...byText].map(
    ([text, users]) =>
      `${[...new Set(users.map(({ name, version, licence }) => `${name} ${version} (${licence})`))].join('\n')}\n\n${text.trim()}\n`,
  )
  return [
    'The executable `tassis` contains the following software of others.\n',
    `Bun ${bunVersion} (MIT, with JavaScriptCore under LGPL-2.0-or-later and other libraries)\n\nhttps://github.com/oven-sh/bun/blob/bun-v${bunVersion}/LICENSE.md\n`,
    ...packages,
  ].join(`\n${'-'.repeat(78)}\n\n`)
}
