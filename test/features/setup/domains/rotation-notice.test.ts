/** @module Mail to owners about new DKIM keys of automatic rotations. */
import { expect, test } from 'bun:test'
import { recheckDomains } from '#features/setup/domains/recheck.ts'
import { startDkimRotation } from '#features/setup/domains/rotate-dkim.ts'
import { ROTATION_NOTICE } from '#features/setup/domains/rotation-notice.ts'
import { verifyDomain } from '#features/setup/domains/verify.ts'
import { days, hours } from '#platform/units.ts'
import { createTestAccount } from '#test/support/app.ts'
import { createNoticeSender, listServiceMail } from '#test/support/notices.ts'
import { startDomainTest } from './fixture.ts'

test('owners get one mail with the records to publish, and none about keys that they created or that sign already', async () => {
  await using t = await startDomainTest({ TASSIS_DKIM_ROTATE_DAYS: '90' })
  const { app, clock } = t
  const sendDue = createNoticeSender(app, ROTATION_NOTICE)
  const registerVerified = async (name: string, actor = t.actor) => {
    const { id, domain } = await t.register(name, actor)
    t.publish(domain, ['spf', 'dkim', 'dkim_ed25519', 'dmarc', 'return_path', 'mx'])
    await verifyDomain(app, actor, id)
    return id
  }
  const other = await createTestAccount(app)
  const byHand = await registerVerified('by-hand.test', other)
  const first = await registerVerified('first.test')
  const second = await registerVerified('second.test')
  const third = await registerVerified('third.test')
  const mails = () => listServiceMail(app)

  clock.advance(days(89))
  // The operator of this domain sees its records in the response.
  await startDkimRotation(app, other, byHand)
  clock.advance(days(1))
  await recheckDomains(app)
  expect(t.stored(second).nextDkim).not.toBeNull()
  // Published before the mail is due.
  t.publish(t.stored(third), ['dkim_next', 'dkim_ed25519_next'])
  await verifyDomain(app, t.actor, third)
  expect(t.stored(third).nextDkim).toBeNull()
  clock.advance(hours(5))
  await sendDue()
  expect(mails()).toEqual([])
  clock.advance(hours(1))
  await sendDue()

  const owner = app.db.query<{ email: string }, [number]>('SELECT email FROM accounts WHERE id = ?')
  expect(mails().map(({ to, subject }) => [to, subject])).toEqual([
    [owner.get(t.actor.accountId)?.email ?? '', 'New DKIM records to publish for 2 domains'],
  ])
  const text = mails()[0]?.text ?? ''
  for (const id of [first, second]) {
    const { domain, nextDkim } = t.stored(id)
    expect(text).toContain(
      [
        domain,
        '',
        `  Name:  ${nextDkim?.selector}._domainkey.${domain}`,
        `  Value: v=DKIM1; k=rsa; p=${nextDkim?.dkimPublicKey}`,
        '',
        `  Name:  ${nextDkim?.selector}e._domainkey.${domain}`,
        `  Value: v=DKIM1; k=ed25519; p=${nextDkim?.ed25519PublicKey}`,
      ].join('\n'),
    )
  }
  expect(text).toContain('There is no deadline, and nothing breaks without them')
  expect(text).not.toContain('third.test')

  // No reminder: the keys wait as long as it takes.
  clock.advance(days(30))
  await recheckDomains(app)
  await sendDue()
  expect(mails()).toHaveLength(1)
})
