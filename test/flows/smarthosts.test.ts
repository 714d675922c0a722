/**
 * @module Each way to a smarthost: all mail, a route of a provider, and overflow; over STARTTLS and implicit TLS, with a
 * password. What is set for the provider or the pool of the recipients' mail does not apply to it.
 */
import { expect, test } from 'bun:test'
import { addRule } from '#features/sending/queue/queue-rules.ts'
import { eventually } from '#test/support/app.ts'
import { createCertificateAuthority } from '#test/support/certificates.ts'
import { createFolder } from '#test/support/folder.ts'
import { startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { startSink } from '#test/support/sink.ts'

const COUNT = 5
const ROUTE = 'route = "smarthost"\n'

interface Way {
  readonly scheme: 'smtp' | 'smtps'
  /** The setting with the URL of the smarthost. */
  readonly url: 'TASSIS_RELAY_URL' | 'TASSIS_OVERFLOW_URL'
  readonly settings?: Readonly<Record<string, string>>
  /** Of the recipients' provider. */
  readonly policy?: string
  /** Whether the recipients' server rejects us first. */
  readonly isBlocked?: true
}

test.each<[string, Way]>([
  [
    'in delivery mode relay',
    { scheme: 'smtp', url: 'TASSIS_RELAY_URL', settings: { TASSIS_DELIVERY: 'relay' }, policy: 'per_minute = 1\n' },
  ],
  [
    'in delivery mode relay, with implicit TLS',
    { scheme: 'smtps', url: 'TASSIS_RELAY_URL', settings: { TASSIS_DELIVERY: 'relay' } },
  ],
  ['for a provider with that route', { scheme: 'smtp', url: 'TASSIS_RELAY_URL', policy: `${ROUTE}per_minute = 1\n` }],
  ['for a provider with that route, with implicit TLS', { scheme: 'smtps', url: 'TASSIS_RELAY_URL', policy: ROUTE }],
  [
    'for a provider with that route, when there is only one for overflow',
    { scheme: 'smtps', url: 'TASSIS_OVERFLOW_URL', policy: ROUTE },
  ],
  ['for mail to a provider that blocks us', { scheme: 'smtp', url: 'TASSIS_OVERFLOW_URL', isBlocked: true }],
])(
  'the smarthost %s gets the mail with verified TLS and its password, from one address without a pool',
  async (_, way) => {
    const authority = createCertificateAuthority()
    const remotes = new Set<string>()
    const logins: string[] = []
    await using smarthost = await startSink({
      ...authority.issue(['127.0.0.1']),
      secure: way.scheme === 'smtps',
      disabledCommands: [],
      authOptional: false,
      onAuth({ username = '', password }, { remoteAddress }, done) {
        remotes.add(remoteAddress)
        logins.push(`${username} ${password}`)
        done(null, { user: username })
      },
    })
    await using server = await startScriptedSmtp({
      mail: () => '554 5.7.1 Client host [127.0.0.4] blocked using zen.spamhaus.org',
    })
    using folder = createFolder({
      'ca.pem': authority.pem,
      'providers.toml': `[big]\nmx = ["big.test"]\n${way.policy ?? ''}`,
    })
    await using flow = await startMailFlow({
      clock: new ManualClock(),
      smtpPort: server.port,
      zone: {
        'one.test': { MX: [{ preference: 1, exchange: 'mx.big.test' }] },
        'mx.big.test': { A: ['127.0.0.1'] },
      },
      settings: {
        [way.url]: `${way.scheme}://tassis:s%40cret@127.0.0.1:${smarthost.port}`,
        TASSIS_RELAY_TLS: 'required',
        TASSIS_EXTRA_CA_FILE: folder.pathOf('ca.pem'),
        TASSIS_PROVIDERS_FILE: folder.pathOf('providers.toml'),
        TASSIS_OUTBOUND_IPS: '127.0.0.2=news.test@news,127.0.0.3=a.test,127.0.0.4=b.test',
        TASSIS_DELIVERY: 'direct',
        ...way.settings,
      },
    })
    const rule = { selector: { accountId: flow.actor.accountId }, target: 'news', reason: '', createdBy: 'cli' }
    await flow.app.commit.write((tx) => addRule(tx, { kind: 'pool', ...rule, createdAt: 0 }))
    if (way.isBlocked) await flow.outcome('first@one.test')
    const before = server.sessions.length
    const sent = await Promise.all(Array.from({ length: COUNT }, (_, n) => flow.send({ to: `r${n}@one.test` })))
    await eventually(() => smarthost.messages.length === COUNT)
    const settled = await Promise.all(sent.map((one) => flow.settled(one)))
    expect(settled.map(({ recipients }) => recipients[0]?.status)).toEqual(Array(COUNT).fill('sent'))
    expect(server.sessions.length).toBe(before)
    expect(smarthost.messages.every(({ secure }) => secure)).toBe(true)
    expect([new Set(logins), remotes]).toEqual([new Set(['tassis s@cret']), new Set(['127.0.0.3'])])
    expect(flow.events(sent[0] as (typeof sent)[0]).at(-1)).toMatchObject({
      type: 'delivered',
      data: { relay: true, ip_address: '127.0.0.3', tls: expect.stringContaining('certificate verified') },
    })
  },
)
