/** @module Tests of what scripts/release says about a release: contents, licences, origin and signature. */
import { expect, test } from 'bun:test'
import { createPublicKey, generateKeyPairSync, verify } from 'node:crypto'
import { join } from 'node:path'
import manifest from '../../package.json'
import { encodeForSignature, formatStatement, signStatement } from '../../scripts/provenance.ts'
import { readRuntimes } from '../../scripts/release.ts'
import { type Component, formatLicences, formatSbom, readComponents } from '../../scripts/sbom.ts'

const ROOT = join(import.meta.dir, '../..')
const components = readComponents(ROOT)
const release = { version: '1.2.3', commit: 'a'.repeat(40), epoch: 1_774_000_000, bunVersion: '1.4.5' }

test('the SBOM names every package that the executable needs, those that they need, and Bun', () => {
  const { specVersion, metadata, components: listed, dependencies } = JSON.parse(formatSbom(components, release))
  expect([specVersion, metadata.timestamp, metadata.component.version]).toEqual([
    '1.6',
    '2026-03-20T09:46:40.000Z',
    '1.2.3',
  ])
  const named = new Map<string, { version: string; purl: string; hashes?: { content: string }[] }>(
    listed.map((component: { 'bom-ref': string }) => [component['bom-ref'], component]),
  )
  for (const [name, version] of Object.entries(manifest.dependencies)) expect(named.get(name)?.version).toBe(version)
  expect(named.get('@mantine/core')?.purl).toBe(`pkg:npm/%40mantine/core@${manifest.dependencies['@mantine/core']}`)
  // Needed by mailauth alone.
  expect(named.has('@postalsys/vmc')).toBe(true)
  expect(named.has('typescript')).toBe(false)
  for (const { hashes } of named.values()) if (hashes) expect(hashes[0]?.content).toMatch(/^[0-9a-f]{128}$/)
  const refs = new Set([...named.keys(), 'tassis@1.2.3'])
  const references = dependencies.flatMap(({ ref, dependsOn = [] }: { ref: string; dependsOn?: string[] }) => [
    ref,
    ...dependsOn,
  ])
  expect(references.filter((ref: string) => !refs.has(ref))).toEqual([])
  expect(dependencies.length).toBe(refs.size)
})

test('the same release has the same SBOM, another one has another serial number', () => {
  const numberOf = (text: string): string => JSON.parse(text).serialNumber
  expect(formatSbom(readComponents(ROOT), release)).toBe(formatSbom(components, release))
  const number = numberOf(formatSbom(components, release))
  expect(number).toMatch(/^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  expect(numberOf(formatSbom(components, { ...release, version: '1.2.4' }))).not.toBe(number)
})

test('the package in the nearest folder is the one that is meant', () => {
  const versionOf = (key: string): string | undefined => components.find((known) => known.key === key)?.version
  const mailauth = components.find(({ key }) => key === 'mailauth') as Component
  expect(mailauth.needs).toContain('mailauth/nodemailer')
  expect(versionOf('mailauth/nodemailer')).not.toBe(versionOf('nodemailer'))
})

test('every package has a licence that allows copies, and its text is included', () => {
  expect(
    components.filter(({ licence }) => !/^[\w.()+ -]+$/.test(licence) || /GPL/.test(licence)).map(({ key }) => key),
  ).toEqual([])
  const text = formatLicences(components, release)
  for (const { name, version, licence } of components) expect(text).toContain(`${name} ${version} (${licence})`)
  expect(text).toContain('bun-v1.4.5/LICENSE.md')
})

test('the provenance names archives, commit and Bun, and its envelope verifies with the public key', () => {
  const runtimes = { '@oven/bun-linux-x64': Buffer.alloc(64, 1).toString('base64') }
  const build = { ...release, targets: ['linux-x64'], lockSha256: 'b'.repeat(64), runtimes }
  const statement = formatStatement([{ name: 'tassis.tar.gz', sha256: 'c'.repeat(64) }], build)
  expect(JSON.parse(statement)).toMatchObject({
    subject: [{ name: 'tassis.tar.gz', digest: { sha256: 'c'.repeat(64) } }],
    predicate: {
      buildDefinition: {
        externalParameters: { commit: release.commit, targets: ['linux-x64'] },
        resolvedDependencies: [
          { digest: { gitCommit: release.commit } },
          { digest: { sha256: 'b'.repeat(64) } },
          { uri: 'pkg:npm/%40oven/bun-linux-x64@1.4.5', digest: { sha512: '01'.repeat(64) } },
        ],
      },
    },
  })
  for (const { privateKey, algorithm } of [
    { ...generateKeyPairSync('ed25519'), algorithm: null },
    { ...generateKeyPairSync('ec', { namedCurve: 'P-256' }), algorithm: 'sha256' },
  ]) {
    const { payload, payloadType, signatures } = JSON.parse(signStatement(statement, privateKey))
    expect([payloadType, Buffer.from(payload, 'base64').toString()]).toEqual([
      'application/vnd.in-toto+json',
      statement,
    ])
    const signature = Buffer.from(signatures[0].sig, 'base64')
    const key = createPublicKey(privateKey)
    expect(verify(algorithm, encodeForSignature(statement), key, signature)).toBe(true)
    expect(verify(algorithm, encodeForSignature(`${statement} `), key, signature)).toBe(false)
  }
})

test('the Bun of each target has the version of this Bun and a locked hash', () => {
  const runtimes = readRuntimes()
  expect(Object.keys(runtimes)).toEqual(['@oven/bun-linux-aarch64', '@oven/bun-linux-x64'])
  for (const hash of Object.values(runtimes)) expect(Buffer.from(hash, 'base64').length).toBe(64)
})
