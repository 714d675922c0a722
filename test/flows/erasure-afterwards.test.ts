/**
 * @module After a person was erased from an email that others received too, the others' clicks and complaints count and
 * restore nothing of the erased person.
 */
import { expect, test } from 'bun:test'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createFolder } from '#test/support/folder.ts'
import { grepData } from '#test/support/grep-data.ts'
import { complaintAbout, HOST, startPostOffice } from './post-office.ts'

const MARK = 'marker.qzx'
const PERSON = `${MARK}@receiver.test`
const OTHER = 'other@receiver.test'
const BROWSER = 'Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0'

test('later actions of other recipients of the same email restore nothing of an erased person', async () => {
  using folder = createFolder()
  const dataDir = folder.path
  await using office = await startPostOffice({}, { runsTasks: true, dataDir })
  const shared = await office.sendBulk({
    to: [OTHER, PERSON],
    subject: 'For both',
    tracking: true,
    html_body: `<p>Hello <a href="https://shop.test/?for=${PERSON}">Shop</a></p>`,
  })
  const copy = shared.copyFor(OTHER)
  const begun = await office.api('DELETE', `/v1/gdpr/erase?email=${PERSON}`)
  await eventually(async () => {
    const { body } = await office.api('GET', `/v1/operations/${at(begun.body, 'operation_id')}`)
    return at(body, 'data', 'status') === 'completed'
  }, 110_000)
  expect(grepData(dataDir, [MARK])).toEqual([])

  const text = copy.raw.replace(/=\r\n/g, '').replace(/=3D/g, '=')
  const link = new RegExp(`https://${HOST.replaceAll('.', '\\.')}(/t/c/[\\w/-]+)`).exec(text)?.[1]
  for (const userAgent of ['curl/8.5.0', BROWSER]) {
    const clicked = await fetch(`${office.url}${link}`, { redirect: 'manual', headers: { 'user-agent': userAgent } })
    expect(clicked.headers.get('location')).toBe(`https://shop.test/?for=${PERSON}`)
  }
  await office.submit({ to: copy.mailFrom, raw: complaintAbout(copy) })
  await eventually(async () => (await office.eventTypes(shared.id)).includes('clicked'))
  expect((await office.eventTypes(shared.id)).filter((type) => type === 'clicked' || type === 'complained')).toEqual([
    'clicked',
    'complained',
  ])
  expect(await office.suppressions()).toEqual([{ address: OTHER, reason: 'complaint', sourceEmailId: shared.id }])
  const stored = office.app.db.query<{ ref: number | null }, []>('SELECT raw_ref AS ref FROM complaints').all()
  expect(stored).toEqual([{ ref: null }])
  const rows = grepData(dataDir, [MARK]).filter((line) => line.startsWith('tassis.db:'))
  expect(rows).toEqual([])
  expectBalanced(office)
}, 240_000)
