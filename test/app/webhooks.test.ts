import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { listAccounts } from '#features/core/accounts/accounts.ts'
import { record } from '#features/core/events/record.ts'
import { createAccount, toOperatorActor } from '#features/people/sub-accounts/sub-accounts.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { createRoute } from '#features/webhooks/inbound-routes/inbound-routes.ts'
import { createWebhook } from '#features/webhooks/webhooks/manage/change.ts'
import { insertPending } from '#features/webhooks/webhooks/manage/pending.ts'
import { getWebhook, openSecret } from '#features/webhooks/webhooks/manage/webhooks.ts'
import { formatUuid, newUuid } from '#platform/ids.ts'
import { type DnsServer, startDnsServer } from '#test/support/dns-server.ts'
import { type HttpsReceiver, startHttpsReceiver } from '#test/support/https-receiver.ts'
import { findWebhookViolations } from '#test/support/webhook-verifier.ts'
import {
  createDataFolder,
  type DataFolder,
  type RunningService,
  runTassis,
  runTassisJson,
  type Settings,
  startServing,
  withApp,
} from './process.ts'

// Services run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

const HOST = 'hooks.test'

interface CreatedWebhook {
  readonly id: string
  readonly secret: string
}

/** Creates two accounts; the first has a webhook for each URL. */
const createWebhooks = (
  settings: Settings,
  urls: readonly string[],
): Promise<{ made: CreatedWebhook[]; other: CreatedWebhook }> =>
  withApp(settings, async (app) => {
    const add = async (name: string) =>
      toOperatorActor(await createAccount(app, { name, email: 'ada@acme.test', plan: 'unlimited' }))
    const make = async (actor: Awaited<ReturnType<typeof add>>, url: string): Promise<CreatedWebhook> => {
      const { webhook, secret } = await createWebhook(app, actor, { url, events: ['sent', 'bounced'] })
      return { id: formatUuid(webhook.uuid), secret }
    }
    const acme = await add('Acme')
    const created: CreatedWebhook[] = []
    for (const url of urls) created.push(await make(acme, url))
    return { made: created, other: await make(await add('Other'), 'https://127.0.0.1/theirs') }
  })

describe('without a service', () => {
  let data: DataFolder
  let hook: CreatedWebhook
  let other: CreatedWebhook
  beforeAll(async () => {
    data = createDataFolder()
    const { made, other: theirs } = await createWebhooks(data.settings, ['https://127.0.0.1/hook'])
    other = theirs
    hook = made[0] ?? other
  })
  afterAll(() => data[Symbol.dispose]())

  test('webhooks list shows the webhooks of all accounts or of one with their state, its reason and the fix, but no secret', async () => {
    using folder = createDataFolder()
    const { made, other: theirs } = await createWebhooks(folder.settings, [
      'https://127.0.0.1/failed',
      'https://127.0.0.1/paused',
    ])
    await withApp(folder.settings, ({ db, clock }) => {
      db.run(
        "UPDATE webhooks SET is_active = 0, off_by_failures = 1, failure_count = 10, last_failure_at = ?, last_failure_reason = 'deactivated after 10 consecutive failures' WHERE url LIKE '%/failed'",
        [clock.now() - 7_200_000],
      )
      db.run("UPDATE webhooks SET is_active = 0 WHERE url LIKE '%/paused'")
      db.run(
        "UPDATE webhooks SET failure_count = 3, last_failure_reason = 'The answer\u001b[31m was 500.' WHERE url LIKE '%/theirs'",
      )
    })
    const { stdout } = await runTassis(['webhooks', 'list'], folder.settings)
    expect(stdout).toMatch(
      /^ID +ACCOUNT +ROUTE +URL +EVENTS +IS ACTIVE +OFF BY FAILURES +FAILURE COUNT .* LAST FAILURE REASON$/m,
    )
    expect(stdout).toMatch(
      /^\S+ +Acme +\S+\/failed +sent, bounced +no +yes +10 +\S+ \S+Z +deactivated after 10 consecutive failures$/m,
    )
    expect(stdout).toMatch(/^\S+ +Acme +\S+\/paused +sent, bounced +no +no /m)
    expect(stdout).toMatch(/^\S+ +Other +\S+\/theirs +sent, bounced +yes +no +3 +The answer \[31m was 500\.$/m)
    expect(stdout).not.toContain('whsec_')
    const one = await runTassis(['webhooks', 'list', '--account', 'acme'], folder.settings)
    expect(one.stdout).toContain(made[0]?.id ?? '')
    expect(one.stdout).not.toContain(theirs.id)
  })

  test('queue shows waiting or deactivated webhooks in one line, or no line if there are none', async () => {
    using folder = createDataFolder()
    await createWebhooks(folder.settings, ['https://127.0.0.1/a', 'https://127.0.0.1/b'])
    const queue = async () => (await runTassis(['queue'], folder.settings)).stdout
    const put = (run: string) => withApp(folder.settings, async (app) => void app.db.run(run))
    expect(await queue()).toBe('The queue is empty.\n')
    await withApp(folder.settings, (app) =>
      app.commit.write((tx) => {
        const delivery = { webhookId: 1, seq: null, event: 'test', payload: '{}' }
        for (let i = 0; i < 3; i++) insertPending(tx, delivery, app.clock.now())
      }),
    )
    await put("UPDATE webhooks SET is_active = 0, off_by_failures = 1 WHERE url LIKE '%/a'")
    await put('UPDATE webhook_deliveries SET next_at = NULL WHERE id > 1')
    expect(await queue()).toBe(
      'The queue is empty.\n\nWebhooks: deliveries that wait 1, deactivated by failures 1 (tassis webhooks list)\n',
    )
    expect(await runTassisJson(['queue'], folder.settings)).toMatchObject({
      health: { webhooks: { waiting: 1, deactivated: 1 } },
    })
  })

  // Proves: notify-12
  test('webhooks secret reveals or rotates with an audit entry, and requires one of both options', async () => {
    // Only the secret is on standard output, for a pipe or a file.
    expect(await runTassis(['webhooks', 'secret', hook.id, '--reveal'], data.settings)).toEqual({
      exitCode: 0,
      stdout: `${hook.secret}\n`,
      stderr: 'The audit log records that it was shown.\n',
    })
    const rotated = await runTassisJson<CreatedWebhook>(['webhooks', 'secret', hook.id, '--rotate'], data.settings)
    expect(rotated).toEqual({ secret: expect.stringMatching(/^whsec_[0-9A-Za-z]{32}$/) } as never)
    expect(rotated.secret).not.toBe(hook.secret)
    for (const [args, exitCode, sentence] of [
      [[hook.id], 2, 'Use --reveal to show the secret, or --rotate to replace it.'],
      [[hook.id, '--reveal', '--rotate'], 2, 'cannot be used with'],
      [[formatUuid(newUuid()), '--reveal'], 1, 'Webhook not found.'],
      [['x', '--rotate'], 1, 'Webhook not found'],
    ] as const) {
      const refused = await runTassis(['webhooks', 'secret', ...args], data.settings)
      expect([refused.exitCode, refused.stdout]).toEqual([exitCode, ''])
      expect(refused.stderr).toContain(sentence)
    }
    await withApp(data.settings, async (app) => {
      const { id } = app.db.query<{ id: number }, []>("SELECT id FROM accounts WHERE name = 'Acme'").get() ?? { id: 0 }
      expect(openSecret(app.keys, getWebhook(app.db, id, hook.id))).toBe(rotated.secret)
      const rows = app.db
        .query<{ action: string; actor: string }, []>(
          "SELECT action, actor_type AS actor FROM audit_logs WHERE action LIKE 'webhook.secret%' ORDER BY id",
        )
        .all()
      expect(rows).toEqual([
        { action: 'webhook.secret_revealed', actor: 'operator' },
        { action: 'webhook.secret_rotated', actor: 'operator' },
      ])
    })
  })

  // Proves: notify-49, operator-45, webhook-7
  test('routes with a URL are listed with their addresses, and their shared secret can be shown and rotated', async () => {
    using folder = createDataFolder()
    await createWebhooks(folder.settings, [])
    const [exact = '', prefix = '', all = ''] = await withApp(folder.settings, async (app) => {
      const account = listAccounts(app.config, app.db).find(({ name }) => name === 'Acme')
      if (!account) throw new Error('there is no account')
      const actor = toOperatorActor(account)
      const { domain } = await createDomain(app, actor, 'acme.test')
      const domainId = formatUuid(domain.uuid)
      const ids: string[] = []
      for (const [pattern, matchType] of [
        ['support', 'exact'],
        ['sales-', 'prefix'],
        ['', 'catch_all'],
      ] as const) {
        const webhookUrl = `https://127.0.0.1/${matchType}`
        const route = { domainId, pattern, matchType, priority: 0, webhookUrl, isActive: true }
        ids.push(formatUuid((await createRoute(app, actor, route)).uuid))
      }
      app.db.run("UPDATE webhooks SET is_active = 0, off_by_failures = 1 WHERE url LIKE '%/prefix'")
      return ids
    })
    const run = (...args: string[]) => runTassis(['webhooks', ...args], folder.settings)
    const { stdout } = await run('list', '--account', 'Acme')
    for (const [id, state, mail] of [
      [exact, 'yes +no', 'support@acme.test'],
      [prefix, 'no +yes', 'sales-*@acme.test'],
      [all, 'yes +no', '*@acme.test'],
    ] as const)
      expect(stdout.split('\n').find((line) => line.startsWith(id))).toMatch(
        new RegExp(`^\\S+ +Acme +${RegExp.escape(mail)} .* ${state} `),
      )
    const shown = await run('secret', 'inbound', '--account', 'acme', '--reveal')
    expect(shown).toEqual({
      exitCode: 0,
      stdout: expect.stringMatching(/^whsec_[0-9A-Za-z]{32}\n$/) as never,
      stderr: 'The audit log records that it was shown.\n',
    })
    const rotated = await run('secret', 'inbound', '--account', 'acme', '--rotate')
    expect([rotated.exitCode, rotated.stderr]).toEqual([
      0,
      'Give it to the receiver within a day: until then webhook-signature has the signatures of both secrets, X-Service-Signature only that of the new one.\n',
    ])
    expect(rotated.stdout).not.toBe(shown.stdout)
    expect((await run('secret', 'inbound', '--account', 'acme', '--reveal')).stdout).toBe(rotated.stdout)
    for (const [args, exitCode, sentence] of [
      [['inbound'], 2, 'Use --reveal to show the secret, or --rotate to replace it.'],
      [['inbound', '--reveal'], 1, 'There are 2 accounts; choose one with --account'],
      [
        [exact, '--reveal'],
        1,
        'This is the webhook of an inbound route; all routes of an account share one secret: tassis webhooks secret inbound --account ',
      ],
      [
        [exact, '--reveal', '--account', 'acme'],
        2,
        '--account is only for `tassis webhooks secret inbound`; a webhook ID already identifies its account.',
      ],
    ] as const) {
      const refused = await run('secret', ...args)
      expect([refused.exitCode, refused.stdout]).toEqual([exitCode, ''])
      expect(refused.stderr).toContain(sentence)
    }
    await withApp(folder.settings, async (app) => {
      const rows = app.db
        .query<{ action: string }, []>("SELECT action FROM audit_logs WHERE action LIKE 'inbound_secret.%' ORDER BY id")
        .all()
      expect(rows.map(({ action }) => action)).toEqual([
        'inbound_secret.revealed',
        'inbound_secret.rotated',
        'inbound_secret.revealed',
      ])
    })
    expect((await run('test', exact)).stdout).toEndWith('\nNo service is running: it is queued until one starts.\n')
    expect((await run('deliveries', exact)).stdout).toMatch(/^\S+ \S+Z +test +pending +0 +[0-9a-f-]{36} +\d{4}-/m)
    // The delivery names the received email by its id.
    const inboundId = formatUuid(newUuid())
    await withApp(folder.settings, (app) =>
      app.commit.write((tx) => {
        const { id, accountId } = tx.db
          .query<{ id: number; accountId: number }, []>(
            "SELECT id, account_id AS accountId FROM webhooks WHERE url LIKE '%/exact'",
          )
          .get() ?? { id: 0, accountId: 0 }
        const event = 'email.inbound'
        const seq = record(tx, { accountId, type: event, at: app.eventTime(), data: { inbound_email_id: inboundId } })
        insertPending(tx, { webhookId: id, seq, event, payload: null }, app.clock.now())
      }),
    )
    expect((await run('deliveries', exact)).stdout).toMatch(new RegExp(` email\\.inbound +pending +0 +${inboundId} `))
    expect(await run('deliveries', 'inbound')).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: 'tassis: Webhook not found.\n',
    })
  })
})

describe('with a service', () => {
  let receiver: HttpsReceiver
  let dns: DnsServer
  let data: DataFolder
  let service: RunningService
  let hook: CreatedWebhook
  let failing: CreatedWebhook
  beforeAll(async () => {
    receiver = await startHttpsReceiver({ names: [HOST] })
    receiver.answer(({ url }) => (url === '/broken' ? { status: 418, body: 'I am\na teapot' } : { status: 200 }))
    dns = await startDnsServer({ [HOST]: { A: ['127.0.0.1'] } })
    data = createDataFolder()
    const settings = { ...data.settings, TASSIS_DNS_SERVERS: dns.address, TASSIS_EXTRA_CA_FILE: receiver.caFile }
    const { made, other } = await createWebhooks(settings, [receiver.url(HOST, '/hook'), receiver.url(HOST, '/broken')])
    hook = made[0] ?? other
    failing = made[1] ?? other
    service = await startServing(settings)
  })
  afterAll(async () => {
    await service?.[Symbol.asyncDispose]()
    data?.[Symbol.dispose]()
    await dns?.close()
    await receiver?.close()
  })

  // Proves: notify-12
  test('webhooks test sends the event and prints the result, and the next test uses a rotated secret', async () => {
    const first = await runTassis(['webhooks', 'test', hook.id], data.settings)
    expect([first.exitCode, first.stdout]).toEqual([
      0,
      expect.stringMatching(/^Status: +delivered\n[\s\S]*\nStatus code: +200\n/m),
    ])
    const { secret } = await runTassisJson<CreatedWebhook>(['webhooks', 'secret', hook.id, '--rotate'], data.settings)
    expect((await runTassis(['webhooks', 'test', hook.id], data.settings)).exitCode).toBe(0)
    const requests = receiver.requests.filter(({ url }) => url === '/hook')
    expect(requests.map(({ headers }) => headers['x-service-event'])).toEqual(['test', 'test'])
    const verified = (secretOf: string) =>
      requests.map(
        (request) => findWebhookViolations(request, { secret: secretOf, nowMs: request.receivedAt }).length === 0,
      )
    expect(verified(hook.secret)).toEqual([true, false])
    expect(verified(secret)).toEqual([false, true])
  })

  test('webhooks test exits with 1 for a rejected event and shows the response, as does the history', async () => {
    const { exitCode, stdout } = await runTassis(['webhooks', 'test', failing.id], data.settings)
    expect([exitCode, stdout]).toEqual([
      1,
      expect.stringMatching(/^Response: +I am a teapot\nError: +The response status was 418\.\n/m),
    ])
    const shown = await runTassis(['webhooks', 'deliveries', failing.id, '--status', 'undeliverable'], data.settings)
    expect(shown.stdout).toMatch(/ test +undeliverable +1 +418 +\d+ +[0-9a-f-]{36} +The response status was 418\.$/m)
    const none = await runTassis(['webhooks', 'deliveries', failing.id, '--status', 'delivered'], data.settings)
    expect(none.stdout.trimEnd()).toEndWith('There is none.')
  })
})
