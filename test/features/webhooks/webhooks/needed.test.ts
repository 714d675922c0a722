/** Events that are retained because a webhook still needs them. */
import { expect, test } from 'bun:test'
import { findFirstNeededSeq } from '#features/webhooks/webhooks/manage/purge.ts'
import { createWebhookApi } from './fixture.ts'

test('the first needed event is the first one after the cursor of an active webhook, or that of a retry; inactive webhooks need none', async () => {
  await using service = await createWebhookApi()
  const { app, actor, addWebhook, tell, rowId, put } = service
  const needed = () => findFirstNeededSeq(app.db, actor.accountId)
  expect(needed()).toBeUndefined()
  const seqs = await tell(['sent', 'bounced', 'sent', 'sent'])
  const [behind, up] = [await addWebhook(), await addWebhook()]
  const at = (id: string, cursor: number) =>
    app.db.run('UPDATE webhooks SET cursor_seq = ? WHERE id = ?', [cursor, rowId(id)])
  at(behind.id, seqs[2] ?? 0)
  expect(needed()).toBe(seqs[3])
  app.db.run(
    `INSERT INTO webhook_deliveries (uuid, webhook_id, seq, event, status, attempts, next_at, created_at)
     VALUES (randomblob(16), ?, ?, 'bounced', 0, 1, 1, 0)`,
    [rowId(up.id), seqs[1] ?? 0],
  )
  expect(needed()).toBe(seqs[1])
  // Deactivating the webhook ends its retry.
  await put(up.id, { is_active: false })
  expect(needed()).toBe(seqs[3])
  await put(behind.id, { is_active: false })
  expect(needed()).toBeUndefined()
})
