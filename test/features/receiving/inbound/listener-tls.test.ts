import { describe, expect, test } from 'bun:test'
import { X509Certificate } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { writeCertificate } from '#features/setup/certificates/store.ts'
import { minutes } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { type CertificateOptions, createCertificateAuthority } from '#test/support/certificates.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { type ListenerFixture, shareTestListener, startTestListener } from './listener-fixture.ts'

const fixture = shareTestListener()

const authority = createCertificateAuthority()

/** A folder with the files of a certificate, removed at the end. */
function certificateFiles(names: readonly string[], times: CertificateOptions = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-tls-'))
  const files = { tlsCertFile: join(folder, 'cert.pem'), tlsKeyFile: join(folder, 'key.pem') }
  const certificate = authority.issue(names, times)
  writeFileSync(files.tlsCertFile, certificate.cert)
  writeFileSync(files.tlsKeyFile, certificate.key)
  return { ...files, files, folder, [Symbol.dispose]: () => rmSync(folder, { recursive: true }) }
}

async function certificateAt(fixture: ListenerFixture): Promise<X509Certificate | undefined> {
  await using client = await fixture.connectGreeted()
  return (await client.startTls()).getPeerX509Certificate()
}

/** The name in the certificate of a new session. */
const nameAt = async (fixture: ListenerFixture): Promise<string> => (await certificateAt(fixture))?.subjectAltName ?? ''

describe('the certificate', () => {
  // Proves: inbound-31
  test('is self-signed if none is configured, created once, and readable by the owner only', async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'tassis-tls-'))
    const file = join(dataDir, 'inbound-tls.pem')
    const names: string[] = []
    const serials: string[] = []
    for (const hostname of ['mx.tassis.test', 'mx.tassis.test', 'other.tassis.test']) {
      await using fixture = await startTestListener({ dataDir, hostname })
      names.push(await nameAt(fixture))
      serials.push(new X509Certificate(readFileSync(file)).serialNumber)
    }
    const certificate = new X509Certificate(readFileSync(file))
    expect({
      names,
      isKept: serials[0] === serials[1],
      isReplacedForAnotherName: serials[1] !== serials[2],
      mode: statSync(file).mode & 0o777,
      years: Math.round((Date.parse(certificate.validTo) - Date.now()) / (365 * 86_400_000)),
      curve: certificate.publicKey.asymmetricKeyDetails?.namedCurve,
    }).toEqual({
      names: ['DNS:mx.tassis.test', 'DNS:mx.tassis.test', 'DNS:other.tassis.test'],
      isKept: true,
      isReplacedForAnotherName: true,
      mode: 0o600,
      years: 10,
      curve: 'prime256v1',
    })
    rmSync(dataDir, { recursive: true })
  })

  // Proves: inbound-31
  test('is reloaded when its files change, without ending sessions', async () => {
    using given = certificateFiles(['first.test'])
    const clock = new ManualClock()
    await using fixture = await startTestListener({ config: given.files, clock })
    await using client = await fixture.connectGreeted()
    const before = await nameAt(fixture)
    const renewed = authority.issue(['second.test'])
    writeFileSync(given.tlsCertFile, renewed.cert)
    writeFileSync(given.tlsKeyFile, renewed.key)
    clock.advance(minutes(1))
    expect([before, await nameAt(fixture), await client.say('NOOP')]).toEqual([
      'DNS:first.test',
      'DNS:second.test',
      '250 2.0.0 OK',
    ])
  })

  test('is our own until that of a certificate authority is stored, then that one', async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'tassis-tls-'))
    const clock = new ManualClock()
    const config = { dataDir, acmeTermsAgreed: true }
    await using fixture = await startTestListener({ config, clock })
    const own = (await certificateAt(fixture))?.issuer
    writeCertificate(dataDir, 'mx.tassis.test', authority.issue(['mx.tassis.test']))
    clock.advance(minutes(1))
    expect([own, (await certificateAt(fixture))?.issuer]).toEqual(['CN=mx.tassis.test', 'CN=Test CA'])
    rmSync(dataDir, { recursive: true })
  })

  test('stays the previous one while its files are unusable, which is logged once', async () => {
    using given = certificateFiles(['first.test'])
    const clock = new ManualClock()
    await using fixture = await startTestListener({ config: given.files, clock })
    const renewed = authority.issue(['second.test'])
    // First the certificate without its key, then half of the key, then nothing.
    writeFileSync(given.tlsCertFile, renewed.cert)
    clock.advance(minutes(10))
    const names = [await nameAt(fixture)]
    writeFileSync(given.tlsKeyFile, renewed.key.slice(0, 50))
    clock.advance(minutes(10))
    names.push(await nameAt(fixture))
    rmSync(given.tlsKeyFile)
    clock.advance(minutes(10))
    names.push(await nameAt(fixture))
    writeFileSync(given.tlsKeyFile, renewed.key)
    clock.advance(minutes(1))
    names.push(await nameAt(fixture))
    const reasons = fixture.logged.flatMap(({ level, reason }) => (level === 'warn' && reason ? [reason] : []))
    expect({ names, reasons }).toEqual({
      names: ['DNS:first.test', 'DNS:first.test', 'DNS:first.test', 'DNS:second.test'],
      reasons: [
        `The key in "${given.tlsKeyFile}" does not match the first certificate in "${given.tlsCertFile}".`,
        `TASSIS_TLS_KEY_FILE is "${given.tlsKeyFile}", which holds no private key in PEM form without a passphrase.`,
        `TASSIS_TLS_KEY_FILE is "${given.tlsKeyFile}", which cannot be read; give the path of a readable PEM file.`,
      ],
    })
  })

  test.each([
    ['for another name', ['first.test'], {}, ['names']],
    ['that has expired', ['mx.tassis.test'], { notAfter: new Date(Date.UTC(2021, 0, 1)) }, ['validTo']],
    ['without problems', ['mx.tassis.test'], {}, []],
  ] as const)('%s is used; its problems are logged at the start', async (_, names, times, expected) => {
    using given = certificateFiles(names, times)
    await using fixture = await startTestListener({ config: given.files, clock: new ManualClock() })
    const facts = fixture.logged.flatMap((line) =>
      line['level'] === 'warn' ? ['names', 'validTo'].filter((name) => name in line) : [],
    )
    expect([await nameAt(fixture), facts]).toEqual([`DNS:${names[0]}`, [...expected]])
  })

  test.each([
    [
      'only a certificate',
      (files: { tlsCertFile: string }) => ({ tlsCertFile: files.tlsCertFile, tlsKeyFile: '' }),
      'TASSIS_TLS_CERT_FILE is set but TASSIS_TLS_KEY_FILE is not; set both, or none for a self-signed certificate.',
    ],
    [
      'only a key',
      (files: { tlsKeyFile: string }) => ({ tlsCertFile: '', tlsKeyFile: files.tlsKeyFile }),
      'TASSIS_TLS_KEY_FILE is set but TASSIS_TLS_CERT_FILE is not; set both, or none for a self-signed certificate.',
    ],
    [
      'a missing file',
      (files: { tlsKeyFile: string }) => ({ tlsCertFile: '/nowhere/cert.pem', tlsKeyFile: files.tlsKeyFile }),
      'TASSIS_TLS_CERT_FILE is "/nowhere/cert.pem", which cannot be read; give the path of a readable PEM file.',
    ],
  ])('with %s configured fails the start with a sentence for the operator', async (_, configOf, expected) => {
    using given = certificateFiles(['first.test'])
    expect(await startTestListener({ config: configOf(given) }).catch((error: Error) => error.message)).toBe(expected)
  })
})

describe('TLS', () => {
  test('before 1.2 is rejected; 1.2 is accepted and recorded', async () => {
    const speak = async (version: string) => {
      const client = Bun.spawn(
        [
          'openssl',
          's_client',
          '-connect',
          `127.0.0.1:${fixture.port}`,
          '-starttls',
          'smtp',
          '-crlf',
          `-${version}`,
          '-cipher',
          'ALL:@SECLEVEL=0',
          '-ign_eof',
        ],
        { stdin: 'pipe', stdout: 'pipe', stderr: 'ignore' },
      )
      client.stdin.write('EHLO a.test\nMAIL FROM:<>\nRCPT TO:<a@b.test>\nDATA\nSubject: x\n\n.\nQUIT\n')
      client.stdin.end()
      const output = await new Response(client.stdout).text()
      await client.exited
      return output.includes('250 2.6.0')
    }
    const spoken = { old: await speak('tls1_1'), current: await speak('tls1_2') }
    const [taken] = fixture.received
    expect({ spoken, tls: taken?.tls?.startsWith('TLSv1.2 TLS_ECDHE_') }).toEqual({
      spoken: { old: false, current: true },
      tls: true,
    })
  })

  test('discards clear text (RFC 3207 §4.2), and starts once', async () => {
    await using client = await fixture.connectGreeted()
    const replies = [await client.say('STARTTLS now'), await client.say('MAIL FROM:<ada@sender.test>')]
    await client.startTls()
    for (const line of ['MAIL FROM:<>', 'STARTTLS', 'HELO again.test', 'RCPT TO:<bob@x.test>', 'MAIL FROM:<>', 'QUIT'])
      replies.push(await client.say(line))
    expect([...replies, await client.closed()]).toEqual([
      '501 5.5.4 Error: syntax: STARTTLS',
      '250 2.1.0 Accepted',
      '503 5.5.1 Error: send HELO/EHLO first',
      '503 5.5.1 Error: TLS already active',
      '250 mx.tassis.test',
      '503 5.5.1 Error: need MAIL command',
      '250 2.1.0 Accepted',
      '221 2.0.0 Bye',
      '',
    ])
  })

  test('that fails in the handshake is not logged as a local error', async () => {
    await using client = await fixture.connectGreeted()
    await client.say('STARTTLS')
    await client.write('\x16\x03\x01\x00\x05hello')
    await client.closed()
    await using next = await fixture.connectGreeted()
    const reply = await next.say('NOOP')
    const levels = await eventually(() => {
      const found = fixture.logged.map(({ level }) => level)
      return found.includes('debug') && found
    })
    expect([reply, levels.filter((level) => level !== 'debug' && level !== 'info')]).toEqual(['250 2.0.0 OK', []])
  })
})
