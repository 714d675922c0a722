/**
 * @module The password typed a short while ago: what shows or replaces a secret requires it, so that a browser left open
 * does not give it away. A sign-in counts; later the password is typed again.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import { audit } from '#features/core/audit-logs/audit.ts'
import { AppError, conflict } from '#platform/errors.ts'
import { minutes } from '#platform/units.ts'
import type { Attempts } from './attempts.ts'
import { requirePassword } from './credentials.ts'
import { findPasswordTime, recordPassword, requireSessionId } from './sessions.ts'
import { findUser } from './users.ts'

const VALID_MINUTES = 10

/** For the `errorResponses` of routes that call `requireRecentPassword`. */
export const PASSWORD_REQUIRED = [
  'password_required',
  `The password was typed more than ${VALID_MINUTES} minutes ago; send it to POST /v1/auth/session/password.`,
] as const

/** Whether the user typed the password in the actor's session within the last minutes. */
function hasRecentPassword({ clock, db }: Pick<App, 'clock' | 'db'>, actor: Actor): boolean {
  const typedAt = findPasswordTime(db, requireSessionId(actor))
  // Also for a clock that was set back.
  return typedAt !== null && Math.abs(clock.now() - typedAt) < minutes(VALID_MINUTES)
}

/** Throws 403 `password_required` when the password was last typed too long ago. For signed-in users only. */
export function requireRecentPassword(app: Pick<App, 'clock' | 'db'>, actor: Actor): void {
  if (!hasRecentPassword(app, actor))
    throw new AppError(
      403,
      'password_required',
      `You typed your password more than ${VALID_MINUTES} minutes ago; send it to POST /v1/auth/session/password, then repeat this request.`,
    )
}

/** Checks the password and remembers that it was typed. Throws 422 when it is wrong, 429 after too many wrong ones. */
export async function confirmPassword(app: App, attempts: Attempts, actor: Actor, password: string): Promise<void> {
  const checked = await requirePassword(app, attempts, actor, { password, field: 'password' })
  await app.commit.write((tx) => {
    if (findUser(tx.db, checked.id)?.passwordHash !== checked.passwordHash)
      throw conflict('password_changed', 'The password has been changed since then; enter the new one.')
    const id = recordPassword(tx, requireSessionId(actor), app.clock.now())
    if (id !== undefined)
      audit(app, tx, actor, { action: 'session.password_confirmed', resourceType: 'session', resourceId: id })
  })
  attempts.recordSuccess(checked.email, actor.ipAddress ?? '')
}
