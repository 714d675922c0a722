import { expect, setDefaultTimeout, test } from 'bun:test'
import { hours } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import {
  createClient,
  createDataFolder,
  runTassis,
  runTassisJson,
  runTassisProcess,
  setUpAccount,
  startServing,
} from './process.ts'

// Services run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

const NEWS = { from_address: 'ada@sender.test', subject: 'News', text_body: 'Hi.' }

/** Creates a list with three contacts, one of them unsubscribed. */
async function createList(ask: ReturnType<typeof createClient>): Promise<string> {
  const list = (await ask('POST', '/v1/contact-lists', { name: 'Friends' })).body.data.id as string
  const contacts = ['one', 'two', 'three'].map((name) => ({ email: `${name}@receiver.test` }))
  await ask('POST', `/v1/contact-lists/${list}/contacts`, { contacts })
  await ask('POST', '/v1/suppressions', { email_address: 'one@receiver.test', reason: 'unsubscribe' })
  return list
}

const formatInAnHour = () => new Date(Date.now() + hours(1)).toISOString()
const TIME = String.raw`\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ`

// Proves: operator-44, operator-72, logs-8
test('broadcasts can be listed, shown, paused, resumed and cancelled, and lists show their contacts by status', async () => {
  using data = createDataFolder()
  const { key, accountId } = await setUpAccount(data.settings, { verified: true })
  const run = async (...args: string[]) => {
    const { exitCode, stdout, stderr } = await runTassis(args, data.settings)
    return { exitCode, out: stdout.trimEnd(), stderr }
  }
  expect(await run('operations')).toEqual({ exitCode: 0, out: 'There is none.', stderr: '' })
  expect(await run('lists')).toEqual({ exitCode: 0, out: 'There is none.', stderr: '' })

  await using service = await startServing({ ...data.settings, TASSIS_DELIVERY: 'capture' })
  const ask = createClient(service.url, key)
  const list = await createList(ask)
  const news = { ...NEWS, contact_list_id: list }
  const broadcast = async (more: object) =>
    String((await ask('POST', '/v1/emails/broadcast', { ...news, ...more })).body.data.operation_id)
  const id = await broadcast({ send_at: formatInAnHour() })
  const sent = await broadcast({})
  const becomes =
    (operation: string, ...path: string[]) =>
    (value: unknown) =>
      eventually(
        async () => at((await ask('GET', `/v1/operations/${operation}`)).body, 'data', 'metadata', ...path) === value,
      )
  await becomes(sent, 'emails', 'sent')(2)
  await becomes(sent, 'state')('done')
  expect((await run('operations', 'show', sent)).out).toMatch(/\nEmails: .*sent 2/)

  expect((await run('operations')).out).toMatch(
    new RegExp(
      [
        '^ID +ACCOUNT +OPERATION TYPE +LIST NAME +SUBJECT +STATE +TOTAL ITEMS .*',
        `${sent} +Acme +broadcast +Friends +News +done +2 +2 +0 +0 +${TIME}`,
        `${id} +Acme +broadcast +Friends +News +waiting +2 +0 +0 +0 +${TIME}$`,
      ].join('\n'),
    ),
  )
  expect((await run('operations', 'list', '--limit', '1', '--account', 'acme')).out).toEndWith('\n… and more (--limit)')
  expect(await runTassisJson(['operations', '--open'], data.settings)).toMatchObject({
    pagination: { total: 1 },
    data: [{ id, account: 'Acme', status: 'pending', list_name: 'Friends', failed_emails: 0 }],
  })
  const paused = (await run('operations', 'pause', id)).out
  expect(paused).toMatch(/^State: +paused$/m)
  expect(paused).toMatch(/Paused; emails not attempted before are not sent until it is resumed\.$/m)
  expect((await run('operations', 'resume', id)).out).toMatch(/^State: +waiting$/m)
  expect((await run('operations', 'cancel', id)).exitCode).toBe(0)
  await becomes(id, 'state')('cancelled')
  expect((await run('operations', '--open')).out).toBe('There is none.')
  expect(await run('operations', 'resume', id)).toEqual({
    exitCode: 1,
    out: '',
    stderr: 'tassis: The broadcast is cancelled, so it can no longer be resumed.\n',
  })
  expect(await run('operations', 'show', 'x')).toEqual({
    exitCode: 1,
    out: '',
    stderr: 'tassis: "x" matches no operation; `tassis operations` lists the newest.\n',
  })
  expect((await run('lists')).out).toMatch(
    new RegExp(
      [
        '^ID +ACCOUNT +NAME +CONTACTS',
        `${list} +Acme +Friends +active 2, pending 0, unsubscribed 1, bounced 0, complained 0$`,
      ].join('\n'),
    ),
  )
  expect(await runTassisJson(['lists', '--account', 'Acme'], data.settings)).toMatchObject({
    pagination: { total: 1 },
    data: [{ id: list, account_id: accountId, contacts: { active: 2, unsubscribed: 1 } }],
  })

  expect((await run('logs', '--account', 'Acme', '--status', '2xx', '--q', '/contacts')).out).toMatch(
    new RegExp(`^CREATED AT +KIND +METHOD .*\n${TIME} +api +POST +/v1/contact-lists/${list}/contacts +20\\d `),
  )

  // A suppression of a list shows its id, even of a deleted one.
  const csv = `email_address,reason,stream,list\nann@receiver.test,unsubscribe,,${list}\n`
  await runTassisProcess(['suppressions', 'import', '-'], data.settings, csv)
  await ask('DELETE', `/v1/contact-lists/${list}`)
  expect((await run('suppressions', 'list', '--email', 'ann@receiver.test')).out).toMatch(
    new RegExp(`^EMAIL ADDRESS +REASON .*\nann@receiver.test +unsubscribe +${list} +${TIME}$`),
  )
})
