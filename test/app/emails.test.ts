/** @module Tests of `tassis emails` and `tassis dead-letters`: finding mail in all accounts, and acting on one email. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { statusCode } from '#features/sending/queue/status.ts'
import {
  createDataFolder,
  type DataFolder,
  runTassis,
  runTassisJson,
  runTassisList,
  setUpAccount,
  startServing,
  withApp,
} from './process.ts'

// Services run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

let data: DataFolder
let settings: DataFolder['settings']

// Without a service, mail is accepted and waits.
beforeAll(async () => {
  data = createDataFolder()
  settings = data.settings
  await setUpAccount(settings, { verified: true })
  await runTassisJson(['accounts', 'create', '--name', 'Beta', '--email', 'bea@beta.test'], settings)
  await runTassisJson(['domains', 'add', 'beta.test', '--account', 'Beta'], settings)
  await runTassisJson(['domains', 'verify', 'beta.test', '--without-dns'], settings)
})

afterAll(() => data[Symbol.dispose]())

const run = async (...args: string[]) => {
  const { exitCode, stdout, stderr } = await runTassis(args, settings)
  return { exitCode, said: (stdout + stderr).trimEnd() }
}

/** Sends a message that waits; returns its id. */
async function send(to: string, { from = 'ada@sender.test', account = 'Acme', subject = 'Your invoice' } = {}) {
  const args = ['send', '--account', account, '--from', from, '--to', to, '--subject', subject, '--no-follow']
  const { id } = await runTassisJson<{ id: string }>(args, settings)
  return id
}

test('emails list finds the mail of all accounts by the beginning of an address, and by human times', async () => {
  const first = await send('bob@receiver.test', { subject: 'One' })
  const second = await send('bob@other.test', { account: 'Beta', from: 'bea@beta.test', subject: 'Two' })
  const third = await send('bobby@receiver.test', { subject: 'Three' })
  const find = async (...filters: string[]) =>
    (await runTassisList<{ id: string }>(['emails', 'list', ...filters], settings)).map(({ id }) => id)
  expect(await find('--to', 'Bob')).toEqual([third, second, first])
  expect(await find('--to', 'bob@')).toEqual([second, first])
  expect(await find('--to', 'bob', '--account', 'Beta')).toEqual([second])
  expect(await find('--to', 'bob', '--limit', '2')).toEqual([third, second])
  expect(await find('--from', 'bea', '--since', '2h', '--until', 'today')).toEqual([second])
  expect(await find('--to', 'bob', '--until', '2 days ago')).toEqual([])
  // Only one account has this domain.
  expect(await find('--domain', 'beta.test', '--to', 'bob')).toEqual([second])
  expect((await run('emails', 'list', '--domain', 'none.test')).said).toContain('There is no domain "none.test"')

  const { said } = await run('emails', 'list', '--to', 'bob')
  expect(said.split('\n')[0]).toMatch(/^ID +DAY AND TIME +STATUS +TO +SUBJECT +ACCOUNT$/)
  expect(said).toMatch(/ bob@other\.test +Two +Beta$/m)
  expect(await find('--query', 'bo one')).toEqual([first])
  expect((await run('emails', 'list', '--since', 'soon')).said).toContain(
    '--since must be a time such as 2h, yesterday',
  )
})

test('explain takes an address or its beginning for the newest email to it, and stands below emails too', async () => {
  await send('carol@receiver.test', { subject: 'Older' })
  const newest = await send('carol@receiver.test', { subject: 'Newer' })
  // Two commands may run in different seconds.
  const explain = async (...args: string[]) => (await run(...args)).said.replace(/ \((?:now|\d+ s ago)\)$/, '')
  const byAddress = await explain('explain', 'carol@receiver.test')
  expect(byAddress).toStartWith(`Email:    ${newest}\n`)
  expect(await explain('emails', 'explain', newest)).toBe(byAddress)
  expect(await explain('explain', 'Carol')).toBe(byAddress)
  for (const unknown of ['nobody@receiver.test', 'nobody'])
    expect(await run('explain', unknown)).toEqual({
      exitCode: 1,
      said: expect.stringContaining(`"${unknown}" matches no email;`) as string,
    })
})

test('an email is named by the Message-ID that its client chose; the beginnings of several ids are listed', async () => {
  await send('dora@receiver.test')
  const other = await send('dora@receiver.test')
  const sibling = `${other.slice(0, -2)}${other.endsWith('00') ? '01' : '00'}`
  await withApp(settings, ({ db }) => {
    db.run('UPDATE emails SET uuid = ? WHERE id = (SELECT max(id) - 1 FROM emails)', [
      Uint8Array.fromHex(sibling.replaceAll('-', '')),
    ])
    db.run(
      `UPDATE emails SET extra = '{"message_id":"<0badcafe@client.test>"}' WHERE id = (SELECT max(id) FROM emails)`,
    )
  })

  expect(await runTassisJson(['emails', 'show', '<0badcafe@client.test>'], settings)).toMatchObject({ id: other })
  const { exitCode, said } = await run('emails', 'show', other.slice(0, 30))
  expect(exitCode).toBe(1)
  expect(said).toStartWith(`tassis: "${other.slice(0, 30)}" matches several; give the ID of one: `)
  expect(said).toContain(`${other} (to dora@receiver.test, account Acme)`)
  expect(said).toContain(`${sibling} (to dora@receiver.test, account Acme)`)
})

test('emails resend and dead-letters retry ask before mail may arrive twice', async () => {
  const [twice, none] = [await send('hugo@receiver.test'), await send('ines@receiver.test')]
  for (const id of [twice, none])
    await runTassisJson(['queue', 'bounce', '--email', id, '--reason', 'closed', '--yes'], settings)
  await withApp(settings, ({ db }) => {
    // As after a connection that was lost after the message.
    db.run("UPDATE recipients SET status = ? WHERE address = 'hugo@receiver.test'", [statusCode('uncertain')])
    db.run(
      "UPDATE dead_letters SET reason = 'uncertain' WHERE recipient_id = (SELECT id FROM recipients WHERE address = 'hugo@receiver.test')",
    )
  })
  await runTassisJson(['suppressions', 'add', 'ines@receiver.test', '--account', 'Acme'], settings)

  const sentence = 'hugo@receiver.test may have got the first email, so it may arrive twice'
  expect(await run('emails', 'resend', twice)).toEqual({
    exitCode: 1,
    said: `tassis: ${sentence}; nothing was changed. Add --yes to send it again.`,
  })
  expect((await run('emails', 'resend', twice, '--yes')).said).toStartWith(`Warning: ${sentence}.\nAccepted as `)
  expect((await run('emails', 'resend', none)).said).toStartWith(
    'Warning: ines@receiver.test is suppressed, so it gets none.\nAccepted as ',
  )
  const [letter] = await runTassisList<{ id: string }>(['dead-letters', 'list', '--email', twice], settings)
  expect(await run('dead-letters', 'retry', letter?.id ?? '')).toEqual({
    exitCode: 1,
    said: 'tassis: 1 dead letter, which may arrive twice; nothing was changed. Add --yes to send them again.',
  })
  expect((await run('dead-letters', 'retry', letter?.id ?? '', '--yes')).exitCode).toBe(0)
  expect(await runTassisJson(['dead-letters', 'list', '--email', twice], settings)).toMatchObject({ data: [] })
  // Another test counts dead letters.
  await runTassisJson(['dead-letters', 'retry', '--email', none, '--yes'], settings)
})

test('emails retry, cancel and resend act on one email and say what else helps', async () => {
  const id = await send('erik@receiver.test')
  expect(await run('emails', 'resend', id)).toEqual({
    exitCode: 1,
    said: 'tassis: The email is queued, so it is still being sent; wait until it has ended, or cancel it while it is scheduled.',
  })
  expect(await run('emails', 'retry', id.slice(0, 18))).toEqual({
    exitCode: 0,
    said: 'Changed:     0\nIn delivery: 0\nHeld:        0\nThere was nothing to change: no mail matches, or it is due already.\nNo service is running, so nothing is sent until one starts.',
  })
  expect(await run('emails', 'cancel', id)).toEqual({
    exitCode: 0,
    said: 'Changed:     1\nIn delivery: 0\nHeld:        0',
  })
  for (const verb of ['cancel', 'retry'])
    expect(await run('emails', verb, id)).toEqual({
      exitCode: 1,
      said: `tassis: The email is cancelled and waits for nothing; \`tassis dead-letters retry --email ${id}\` tries dead letters again, \`tassis emails resend ${id}\` sends it as a new email.`,
    })
  const send_at = new Date(Date.now() + 3_600_000).toISOString()
  const mail = { from: 'ada@sender.test', to: 'erik@receiver.test', subject: 'Later', text_body: 'Hi', send_at }
  const request = ['api', 'POST', '/v1/emails', JSON.stringify(mail), '--account', 'Acme']
  const { id: later } = await runTassisJson<{ id: string }>(request, settings)
  expect(await run('emails', 'retry', later)).toEqual({
    exitCode: 1,
    said: `tassis: The email is scheduled for ${send_at.slice(0, 19).replace('T', ' ')}Z, so there is nothing to retry; \`tassis emails cancel ${later}\` cancels it.`,
  })
  expect((await run('emails', 'cancel', later)).said).toBe('Cancelled: nothing of it is sent.')
  const { id: copy } = await runTassisJson<{ id: string }>(['emails', 'resend', id], settings)
  expect(await runTassisJson(['emails', 'show', copy], settings)).toMatchObject({
    status: 'queued',
    subject: 'Your invoice',
    recipients: [{ address: 'erik@receiver.test', status: 'queued' }],
  })
  const { said } = await run('audit', 'list', '--limit', '5')
  expect(said).toMatch(/ queue\.dropped +operator /)
  expect(said).toMatch(/ email\.repeated +operator /)
})

// Proves: operator-43
test('dead letters of all accounts are listed and put back into the queue, those that may arrive twice only by name', async () => {
  const id = await send('faye@receiver.test')
  await runTassisJson(['queue', 'bounce', '--email', id, '--reason', 'closed', '--yes'], settings)
  const listed = () =>
    runTassisList<{ id: string; failure_reason: string; account: string }>(
      ['dead-letters', 'list', '--email', id],
      settings,
    )
  const [letter] = await listed()
  expect(letter).toMatchObject({ failure_reason: 'expired', account: 'Acme', to_address: 'faye@receiver.test' })
  expect((await run('dead-letters', 'list')).said).toMatch(/ expired +faye@receiver\.test .* Acme /)
  expect((await run('explain', id)).said).toMatch(
    new RegExp(`Next: +nothing automatically; \`tassis dead-letters retry ${letter?.id}\` tries again`),
  )

  const selected = ['dead-letters', 'retry', '--email', id]
  expect(await run(...selected)).toEqual({
    exitCode: 1,
    said: 'tassis: 1 dead letter; nothing was changed. Add --yes to send them again.',
  })
  expect((await run(...selected, '--reason', 'uncertain', '--yes')).said).toStartWith('tassis: No dead letter matches ')
  expect(await run(...selected, '--yes')).toEqual({
    exitCode: 0,
    said: '1 dead letter put back into the queue, due now.',
  })
  expect(await listed()).toEqual([])
  expect(await runTassisJson(['emails', 'show', id], settings)).toMatchObject({ recipients: [{ status: 'queued' }] })
  expect(await run('dead-letters', 'retry', letter?.id ?? '')).toEqual({
    exitCode: 1,
    said: 'tassis: Dead letter not found.',
  })
  const other = await send('gina@receiver.test')
  for (const email of [id, other])
    await runTassisJson(['queue', 'bounce', '--email', email, '--reason', 'closed', '--yes'], settings)
  expect((await run('dead-letters', 'retry', '--all', '--account', 'Beta', '--yes')).exitCode).toBe(1)
  expect((await run('dead-letters', 'retry', '--all', '--yes')).said).toStartWith('2 dead letters put back')
  expect((await run('dead-letters', 'list')).said).toBe('There is none.')
  expect((await run('dead-letters', 'retry')).said).toBe(
    'tassis: Give the ID of a dead letter, --email with the ID of an email, or --all.',
  )
})

interface Listed {
  readonly pagination: { readonly total: number }
  readonly data: readonly { readonly id: string; readonly subject: string; readonly message_id: string }[]
}

test('emails list finds emails by the filters of the API and fits 80 columns, and emails show describes one email', async () => {
  using data = createDataFolder()
  const settings = { ...data.settings, TASSIS_DELIVERY: 'capture' }
  await setUpAccount(settings, { verified: true })
  const send = (to: string, subject: string) =>
    runTassis(['send', '--from', 'Ada <ada@sender.test>', '--to', to, '--subject', subject], settings)
  await send('bob@receiver.test', 'Your invoice 4711 of a very long month')
  await send('somebody.with.a.long.name@subdomain.receiver.test', 'Your invoice 4712')
  await send('bob@receiver.test', 'Hello \u001b[31mred')

  await using _ = await startServing(settings)
  const all = await runTassis(['emails', 'list'], settings)
  const lines = all.stdout.trimEnd().split('\n')
  expect(lines).toHaveLength(4)
  expect(lines[0]).toMatch(/^ID +DAY AND TIME +STATUS +TO +SUBJECT$/)
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(80)
  expect(all.stdout).not.toContain('\u001b')

  const subjects = async (...filters: string[]) => {
    const { data: emails, pagination } = await runTassisJson<Listed>(['emails', 'list', ...filters], settings)
    expect(pagination.total).toBe(emails.length)
    return emails.map(({ subject }) => subject)
  }
  expect(await subjects('--to', 'BOB@receiver.test', '--subject', 'invoice')).toEqual([
    'Your invoice 4711 of a very long month',
  ])
  expect(await subjects('--from', 'ada@sender.test', '--status', 'bounced')).toEqual([])
  expect(await subjects('--status', 'sent', '--subject', '4712')).toEqual(['Your invoice 4712'])
  expect(await subjects('--since', '2000-01-01', '--until', '2000-01-02')).toEqual([])
  const limited = await runTassis(['emails', 'list', '--limit', '1'], settings)
  expect(limited.stdout).toContain('… and more (--limit)')
  const searched = await runTassis(
    ['emails', 'list', '--limit', '1', '--to', 'bob@receiver.test', '--status', 'sent'],
    settings,
  )
  expect(searched.stdout).toContain('… and more (--limit)')
  const wrong = await runTassis(['emails', 'list', '--to', 'bob@@'], settings)
  expect([wrong.exitCode, wrong.stderr]).toEqual([1, expect.stringContaining('more than one @')])

  const shortId = lines[3]?.split(' ')[0] ?? ''
  const { stdout } = await runTassis(['emails', 'show', shortId], settings)
  expect(stdout).toMatch(/^State: +captured\. It was captured, not sent: the delivery mode .*$/m)
  expect(stdout).toMatch(/^to +bob@receiver\.test +sent +1 +\d{4}-/m)
  expect(stdout).toMatch(/delivered +bob@receiver\.test/)
  const listed = await runTassisJson<Listed>(['emails', 'list', '--to', 'bob@receiver.test'], settings)
  const { id, message_id: messageId } = listed.data[1] ?? { id: '', message_id: '' }
  expect(await runTassisJson<object>(['emails', 'show', messageId], settings)).toMatchObject({
    id,
    recipients: [{ address: 'bob@receiver.test', status: 'sent' }],
    events: [{ type: 'queued' }, { type: 'sent' }, { type: 'delivered' }],
  })
  for (const unknown of ['01234567', 'x', '0'.repeat(33)]) {
    const missing = await runTassis(['emails', 'show', unknown], settings)
    expect([missing.exitCode, missing.stderr]).toEqual([1, expect.stringContaining('matches no email;')])
  }
})
