import { expect, setDefaultTimeout, test } from 'bun:test'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { writeCertificate } from '#features/setup/certificates/store.ts'
import { eventually } from '#test/support/app.ts'
import { createCertificateAuthority } from '#test/support/certificates.ts'
import { createDataFolder, runTassis, runTassisJson, setUpAccount, startServing } from './process.ts'

// Services run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

const DAY_MS = 86_400_000

test('certificates are listed with their end and why an order failed, and ordered again on request', async () => {
  using data = createDataFolder()
  const settings = {
    ...data.settings,
    TASSIS_DELIVERY: 'capture',
    TASSIS_LOG_LEVEL: 'silent',
    TASSIS_HOSTNAME: 'mx.tassis.test',
    TASSIS_PUBLIC_URL: 'https://mail.tassis.test',
    TASSIS_HTTPS_ADDR: '127.0.0.1:0',
    TASSIS_INBOUND_ADDR: '127.0.0.1:0',
    TASSIS_ACME_TERMS_AGREED: 'true',
    // Nothing listens there.
    TASSIS_ACME_URL: 'https://127.0.0.1:9/directory',
  }
  mkdirSync(data.path, { recursive: true })
  const times = { notBefore: new Date(Date.now() - 85 * DAY_MS), notAfter: new Date(Date.now() + 5 * DAY_MS) }
  writeCertificate(data.path, 'mx.tassis.test', createCertificateAuthority().issue(['mx.tassis.test'], times))
  {
    await using service = await startServing(settings)
    expect(service.output()).toMatch(/, HTTPS at 127\.0\.0\.1:\d+, inbound mail at /)
    const { stdout } = await eventually(async () => {
      const listed = await runTassis(['certificates', 'list'], settings)
      // One for each host.
      return listed.stdout.split('Next attempt').length === 3 && listed
    })
    const [heading, api, smtp, ...rest] = stdout.split('\n')
    expect([heading, api, smtp].map((line) => line?.split(/ {2,}/))).toEqual([
      ['HOST', 'FOR', 'FROM', 'VALID UNTIL'],
      ['mail.tassis.test', 'HTTPS', 'none yet'],
      ['mx.tassis.test', 'SMTP', 'certificate authority', expect.stringMatching(/^20.*Z \(in [45] d\)$/)],
    ])
    expect(rest.join('\n')).toMatch(
      /^\nmail\.tassis\.test: 127\.0\.0\.1:9 cannot be reached: connection refused\n {2}Next attempt (?:now|in \d+ s|in 1 min); `tassis certificates retry` makes it now\.\n\nmx\.tassis\.test: /,
    )
    const retried = await runTassis(['certificates', 'retry'], settings)
    expect(retried.stdout).toBe(
      'The service orders again: mail.tassis.test, mx.tassis.test. See `tassis certificates list` in a minute.\n',
    )
    expect(await runTassisJson(['audit', 'list', '--action', 'operator.certificates_retried'], settings)).toMatchObject(
      { data: [{ actor_id: 'cli', metadata: { hosts: ['mail.tassis.test', 'mx.tassis.test'] } }] },
    )
  }
  // Without a service, from its files.
  expect(await runTassisJson(['certificates', 'list'], settings)).toMatchObject({
    data: [
      { host: 'mail.tassis.test', use: 'api', source: 'acme', not_after: null, last_error: expect.any(String) },
      { host: 'mx.tassis.test', use: 'smtp', source: 'acme' },
    ],
    has_more: false,
    total: 2,
  })
  const { exitCode, stderr } = await runTassis(['certificates', 'retry'], {
    ...settings,
    TASSIS_ACME_TERMS_AGREED: 'false',
  })
  expect([exitCode, stderr]).toEqual([
    1,
    'tassis: No certificates are ordered; set TASSIS_ACME_TERMS_AGREED=true (docs/certificates.md).\n',
  ])
})

test('a certificate of the operator that is not for the host is named with what helps', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  const { cert, key } = createCertificateAuthority().issue(['mail.tassis.test'])
  const paths = { cert: join(data.path, 'own.pem'), key: join(data.path, 'own.key') }
  writeFileSync(paths.cert, cert)
  writeFileSync(paths.key, key)
  const settings = {
    ...data.settings,
    TASSIS_HOSTNAME: 'mx.tassis.test',
    TASSIS_PUBLIC_URL: 'https://mail.tassis.test',
    TASSIS_HTTPS_ADDR: '127.0.0.1:0',
    TASSIS_INBOUND_ADDR: '127.0.0.1:0',
    TASSIS_TLS_CERT_FILE: paths.cert,
    TASSIS_TLS_KEY_FILE: paths.key,
  }
  const problem = 'The certificate of SMTP is not for mx.tassis.test, so clients that verify it do not deliver.'
  const fix = 'Use a certificate for mx.tassis.test in TASSIS_TLS_CERT_FILE, or set TASSIS_HOSTNAME to its name.'
  const { stdout } = await runTassis(['certificates', 'list'], settings)
  expect(stdout.split('\n').slice(3)).toEqual(['', problem, `  ${fix}`, ''])
  expect(await runTassisJson(['certificates', 'list'], settings)).toMatchObject({
    data: [
      { host: 'mail.tassis.test', source: 'file', mismatch: null },
      { host: 'mx.tassis.test', source: 'file', mismatch: { problem, fix } },
    ],
  })
})
