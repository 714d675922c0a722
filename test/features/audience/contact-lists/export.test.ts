import { expect, test } from 'bun:test'
import { exportChunks } from '#features/audience/contact-lists/import-routes.ts'
import { getList } from '#features/setup/contact-store/lists.ts'
import { insertContact, transitionContacts } from '#features/setup/contact-store/status.ts'
import { KiB } from '#platform/units.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createEmailApi, NOW } from '#test/support/email-api.ts'
import { completed, createList, exportFile, imported, listContacts } from './files.ts'

const AT = new Date(NOW).toISOString()

// Proves: contact-21
test('an export has its columns, is a download, and escapes values that a spreadsheet would treat as a formula', async () => {
  await using service = await createEmailApi()
  const list = await createList(service)
  const contacts: [email: string, metadata: Record<string, unknown>, line: string][] = [
    ['a@x.test', {}, `a@x.test,active,${AT},,${AT},`],
    ['+B@x.test', { n: 1 }, `'+B@x.test,active,${AT},,${AT},"{""n"":1}"`],
    ['c@x.test', { n: 'x,=1' }, `c@x.test,active,${AT},,${AT},"{""n"":""x,'=1""}"`],
  ]
  for (const [email, metadata] of contacts)
    await service.api('POST', `/v1/contact-lists/${list}/contacts`, { email, metadata })
  const response = await exportFile(service, list)
  expect(response.headers.get('content-type')).toBe('text/csv; charset=utf-8')
  expect(response.headers.get('content-disposition')).toBe('attachment; filename="contacts.csv"')
  expect(response.headers.get('x-request-id')).not.toBeNull()
  expect(await response.text()).toBe(
    ['email,status,subscribed_at,unsubscribed_at,created_at,metadata', ...contacts.map(([, , line]) => line), ''].join(
      '\r\n',
    ),
  )
})

// Proves: contact-21
test('an export imported into another list gives the same contacts except for the times, whatever the cells begin with', async () => {
  await using service = await createEmailApi({ runsTasks: true })
  const { app, actor } = service
  const list = await createList(service)
  const starts = ['', '=', '+', '-', '@', '\t', '\r', '\n', "'", "'=", '"', ',', ';', ' ', '\ufeff', '\uff1d', 'é', '|']
  const statuses = ['active', 'unsubscribed', 'bounced', 'complained'] as const
  await service.api('POST', `/v1/contact-lists/${list}/contacts`, {
    contacts: starts.map((start, i) => ({
      email: `${["'", "'=", '=', '+', 'é'][i] ?? ''}u${i}@X.test`,
      metadata: { [`${start}k`]: `${start}v,=1;'-2\n@3`, n: [-1, null, { x: true }], q: '"' },
    })),
  })
  await app.commit.write((tx) => {
    for (const [i] of starts.entries()) {
      const to = statuses[i % statuses.length] ?? 'active'
      if (to !== 'active') transitionContacts(app, tx, { accountId: actor.accountId, addressKey: `u${i}@x.test`, to })
    }
  })
  const before = await listContacts(service, list)
  expect(before).toHaveLength(starts.length)
  const file = await (await exportFile(service, list)).text()
  // In chunks of any size.
  for (const cell of file.split(/[,;|\t\r\n]/)) expect(cell).not.toMatch(/^[ "]*[=+\-@\uff1d]/)
  const other = await createList(service, { name: 'Others' })
  expect(await imported(service, other, file)).toEqual(completed(starts.length))
  expect(await listContacts(service, other)).toEqual(before)
  const again = await (await exportFile(service, other)).text()
  const withoutTimes = (text: string) => text.replaceAll(/,[^,"]*Z,([^,"]*Z)?,[^,"]*Z,/g, ',')
  expect(withoutTimes(again)).toBe(withoutTimes(file))
  expectBalanced(service)
})

// Proves: contact-21
test('an export of many contacts has each once, oldest first, all or those with one status', async () => {
  await using service = await createEmailApi({ runsTasks: true })
  const list = await createList(service)
  const count = 2_345
  const lines = Array.from({ length: count }, (_, i) => `u${i}@x.test,${i % 3 === 0 ? 'bounced' : 'active'}`)
  await imported(service, list, ['email,status', ...lines].join('\n'))
  const linesOf = async (query?: string) => {
    const text = await (await exportFile(service, list, query)).text()
    return text
      .trimEnd()
      .split('\r\n')
      .slice(1)
      .map((line) => line.split(',').slice(0, 2).join(','))
  }
  expect(await linesOf()).toEqual(lines)
  expect(await linesOf('?status=bounced')).toEqual(lines.filter((line) => line.endsWith('bounced')))
  expect(await linesOf('?status=complained')).toEqual([])
  expect(service.app.memory.inUseBytes).toBe(0)
})

test('an export of long metadata is written in small chunks, and has each contact once', async () => {
  await using service = await createEmailApi()
  const { app, actor } = service
  const list = getList(app.db, actor.accountId, await createList(service))
  const emails = Array.from({ length: 300 }, (_, i) => `u${i}@x.test`)
  await app.commit.write((tx) => {
    for (const [i, email] of emails.entries()) {
      const metadata = JSON.stringify({ note: 'x'.repeat(i < 100 ? 1 : 10 * KiB) })
      insertContact(app, tx, { accountId: actor.accountId, listId: list.id, email, metadata, status: 'active' })
    }
  })
  for (const status of [undefined, 'active'] as const) {
    const pieces = [...exportChunks(app.db, list.id, status)]
    // The header, and three chunks of a hundred rows.
    expect([pieces.length, Math.max(...pieces.map(({ length }) => length)) < 1100 * KiB]).toEqual([4, true])
    const lines = Buffer.concat(pieces).toString().trimEnd().split('\r\n').slice(1)
    expect(lines.map((line) => line.split(',')[0])).toEqual(emails)
  }
})
