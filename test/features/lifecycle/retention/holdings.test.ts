import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { listHoldings } from '#features/lifecycle/retention/holdings.ts'
import { BlobBytes } from '#features/lifecycle/retention/measure.ts'
import { openReadOnly } from '#platform/db/open.ts'
import { minutes } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { addContacts, createContacts, newList } from '#test/support/broadcasts.ts'
import { createEmailApi } from '#test/support/email-api.ts'
import { rowsOf } from './year.ts'

test.each(['content', 'logs'] as const)(
  'reading the %s of all accounts lets the write-ahead log be emptied',
  async (kind) => {
    await using service = await createEmailApi({ runsTasks: true })
    const { app, api, clock } = service
    const list = await newList(service, 'Readers')
    await addContacts(app, list, createContacts(2))
    for (const subject of ['One', 'Two', 'Three']) {
      const content = { list_id: list, subject, from_address: 'ada@sender.test', html_body: `<p>${subject}</p>` }
      const draft = await api('POST', '/v1/newsletters', content)
      await api('POST', `/v1/newsletters/${String(at(draft.body, 'data', 'id'))}/send`)
    }
    await eventually(() => {
      clock.advance(minutes(1))
      return rowsOf(service, 'emails') === 6
    })
    const { dataDir } = app.config
    const db = openReadOnly(join(dataDir, 'tassis.db'))
    try {
      const content = new BlobBytes(join(dataDir, 'content'))
      const rawMail = new BlobBytes(join(dataDir, 'raw-mail'))
      const holdings = listHoldings(db, kind, { content, rawMail })
      expect(holdings.next().done).toBe(false)
      app.db.run('UPDATE accounts SET updated_at = updated_at + 1')
      app.db.run('PRAGMA busy_timeout = 0')
      expect(app.db.query('PRAGMA wal_checkpoint(TRUNCATE)').get()).toMatchObject({ busy: 0 })
      expect([...holdings].length).toBe(8)
    } finally {
      db.close()
    }
  },
)
