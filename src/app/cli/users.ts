/** @module `tassis users`: manages the users who sign in with a browser. */
import { readFileSync } from 'node:fs'
import { Argument, type Command, Option } from 'commander'
import type { App, TeamRole } from '#features/core/app/app.ts'
import { ROLES } from '#features/people/team/roles.ts'
import { listSessions } from '#features/people/team/sessions.ts'
import {
  changeUserRole,
  createUser,
  createUserResetLink,
  disableUserTotp,
  removeUser,
  requireUser,
  setUserOperator,
  signUserOut,
} from '#features/people/team/user-admin.ts'
import { findUser, hasOtherOwner, listMemberships, listUsers, type User } from '#features/people/team/users.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import { resolveOperator } from '../find-account.ts'
import { defineAdminCommand, UsageError } from './admin-command.ts'
import { runAdminCommand } from './call.ts'
import { type AccountOption, addCommand, type JsonOption, withAccount } from './options.ts'
import { formatCount, formatUtc, printList, printResult, printSecret, toList, toPrintable } from './output.ts'

const toUserView = (app: App, user: User) => ({
  id: formatUuid(user.uuid),
  email: user.email,
  name: user.name,
  has_password: user.passwordHash !== null,
  totp_enabled: user.totpEnabledAt !== null,
  is_operator: user.operatorAt !== null,
  last_login_at: isoTimeOrNull(user.lastLoginAt),
  created_at: isoTime(user.createdAt),
  accounts: listMemberships(app.db, user.id).map(({ uuid, name, role }) => ({ id: formatUuid(uuid), name, role })),
})

interface CreateUserInput extends AccountOption {
  readonly email: string
  readonly role: TeamRole
  readonly name?: string
  readonly password?: string
}

interface UserInput extends AccountOption {
  readonly email: string
}

const create = defineAdminCommand(
  'users.create',
  async ({ opened: { app } }, { account, ...input }: CreateUserInput) => {
    const { user, link, isKnown } = await createUser(app, resolveOperator(app, account), input)
    return { ...toUserView(app, user), link: link ?? null, is_known: isKnown }
  },
)

const list = defineAdminCommand('users.list', ({ opened: { app } }, _: null) =>
  listUsers(app.db).map((user) => toUserView(app, user)),
)

const reset = defineAdminCommand('users.reset', async ({ opened: { app } }, { email }: UserInput) => ({
  link: await createUserResetLink(app, email),
}))

const role = defineAdminCommand(
  'users.role',
  async ({ opened: { app } }, { email, account, role: requestedRole }: UserInput & { role: TeamRole }) => {
    await changeUserRole(app, resolveOperator(app, account), email, requestedRole)
    return { email, role: requestedRole }
  },
)

const remove = defineAdminCommand('users.remove', async ({ opened: { app } }, { email, account }: UserInput) => {
  const actor = resolveOperator(app, account)
  const { id } = requireUser(app, email)
  await removeUser(app, actor, email)
  return {
    is_gone: findUser(app.db, id) === undefined,
    has_owner: hasOtherOwner(app.db, actor.accountId, id),
  }
})

const totpOff = defineAdminCommand('users.totp-off', async ({ opened: { app } }, { email }: UserInput) => {
  await disableUserTotp(app, email)
  return { totp_enabled: false }
})

const sessions = defineAdminCommand('users.sessions', ({ opened: { app } }, { email }: UserInput) =>
  listSessions(app.db, requireUser(app, email).id, app.clock.now()).map((session) => ({
    id: formatUuid(session.uuid),
    ip_address: session.ipAddress,
    user_agent: session.userAgent,
    last_seen_at: isoTime(session.lastSeenAt),
    created_at: isoTime(session.createdAt),
  })),
)

const signOutAll = defineAdminCommand('users.sign-out', async ({ opened: { app } }, { email }: UserInput) => ({
  ended: await signUserOut(app, email),
}))

const operator = defineAdminCommand(
  'users.operator',
  async ({ opened: { app } }, { email, is_operator }: UserInput & { readonly is_operator: boolean }) => {
    const { hasTotp } = await setUserOperator(app, email, is_operator)
    return { email, is_operator, totp_enabled: hasTotp }
  },
)

export const userAdminCommands = [create, list, reset, role, remove, totpOff, operator, sessions, signOutAll]

const LINK_DESCRIPTION = 'sets a password once, within 24 hours'

export function addUserCommands(program: Command): void {
  const users = program.command('users').description('manage the users who sign in with a browser')

  withAccount(addCommand(users, 'create', 'create a user, or add an existing one to the team of an account'))
    .argument('<email>', 'email address of the user')
    .addOption(new Option('--role <role>', 'role of the user').choices(ROLES).default('owner'))
    .option('--name <name>', 'name of the user')
    .option('--password-stdin', 'read the password from standard input; default: print a link to set one')
    .action(async (email: string, options: CreateOptions) => {
      const { account, name, role } = options
      const password = options.passwordStdin ? readPassword() : undefined
      const input = {
        email,
        role,
        account,
        ...(name !== undefined && { name }),
        ...(password !== undefined && { password }),
      }
      const created = await runAdminCommand(create, input)
      const sentence = `${created.is_known ? 'Added' : 'Created'} user ${toPrintable(created.email)} (${created.id}), ${role}.`
      if (created.link === null) return printResult(options, created, () => sentence)
      printSecret(
        options,
        created,
        created.link,
        `${sentence} The link ${LINK_DESCRIPTION}: give it only to this user.`,
      )
    })

  addCommand(users, 'list', 'list all users').action(async (options: JsonOption) => {
    printList(
      options,
      toList(await runAdminCommand(list, null)),
      'There is no user yet; create one with `tassis users create ada@example.com`.',
      ['EMAIL', 'NAME', 'ACCOUNTS', 'SECOND FACTOR', 'LAST LOGIN', ''],
      (user) => [
        user.email,
        user.name,
        user.accounts.map(({ name, role }) => `${name}: ${role}`).join(', '),
        user.totp_enabled ? 'app' : 'none',
        user.last_login_at === null ? 'never' : formatUtc(user.last_login_at),
        [...(user.is_operator ? ['operator'] : []), ...(user.has_password ? [] : ['no password yet'])].join(', '),
      ],
    )
  })

  const emailArgument = ['<email>', 'email address of the user'] as const
  addCommand(users, 'reset', 'print a link to set a new password')
    .argument(...emailArgument)
    .action(async (email: string, options: JsonOption) => {
      const { link } = await runAdminCommand(reset, { email })
      printSecret(options, { link }, link, `This link ${LINK_DESCRIPTION}: give it only to this user.`)
    })

  withAccount(addCommand(users, 'role', 'change the role of a user in the team of an account'))
    .argument('<email>', 'email address of the user')
    .addArgument(new Argument('<role>', 'the new role').choices(ROLES))
    .action(async (email: string, requestedRole: TeamRole, options: JsonOption & AccountOption) => {
      const input = { email, role: requestedRole, account: options.account }
      const updated = await runAdminCommand(role, input)
      printResult(options, updated, (shown) => `${toPrintable(shown.email)} now has the role ${shown.role}.`)
    })
  withAccount(addCommand(users, 'remove', 'remove a user from the team of an account'))
    .argument(...emailArgument)
    .action(async (email: string, { account, ...options }: AccountOption & JsonOption) => {
      const removed = await runAdminCommand(remove, { email, account })
      printResult(options, removed, ({ is_gone, has_owner }) =>
        [
          `Removed ${toPrintable(email)} from the team.`,
          ...(is_gone ? ['The user belonged to no other team and was deleted.'] : []),
          ...(has_owner
            ? []
            : ['The team has no owner now; add one with `tassis users create ada@example.com --role owner`.']),
        ].join('\n'),
      )
    })

  addCommand(users, 'totp-off', 'disable the second factor of a user who has lost it')
    .argument(...emailArgument)
    .action(async (email: string, options: JsonOption) => {
      const done = await runAdminCommand(totpOff, { email })
      printResult(options, done, () => `${toPrintable(email)} now signs in without a code.`)
    })

  addCommand(users, 'operator', 'make a user an operator of the whole service')
    .argument(...emailArgument)
    .option('--remove', 'the user is no operator any more')
    .action(async (email: string, { remove, ...options }: JsonOption & { readonly remove?: boolean }) => {
      printResult(options, await runAdminCommand(operator, { email, is_operator: remove !== true }), formatOperator)
    })

  addCommand(users, 'sessions', 'list the sessions of a user')
    .argument(...emailArgument)
    .action(async (email: string, options: JsonOption) => {
      printList(
        options,
        toList(await runAdminCommand(sessions, { email })),
        `${toPrintable(email)} has no session.`,
        ['ID', 'LAST SEEN', 'SIGNED IN', 'FROM', 'BROWSER'],
        (session) => [
          session.id,
          formatUtc(session.last_seen_at),
          formatUtc(session.created_at),
          session.ip_address ?? '',
          session.user_agent ?? '',
        ],
      )
    })

  addCommand(users, 'sign-out', 'end all sessions of a user immediately')
    .argument(...emailArgument)
    .action(async (email: string, options: JsonOption) => {
      const done = await runAdminCommand(signOutAll, { email })
      printResult(options, done, ({ ended }) => `Ended ${formatCount(ended, 'session')} of ${toPrintable(email)}.`)
    })
}

function formatOperator(done: {
  readonly email: string
  readonly is_operator: boolean
  readonly totp_enabled: boolean
}) {
  const email = toPrintable(done.email)
  if (!done.is_operator) return `${email} is no operator of the service.`
  return done.totp_enabled
    ? `${email} is an operator of the service now: the dashboard has the screen Server after a sign-in with a code.`
    : `${email} is an operator of the service now, and needs an authenticator app: the dashboard leads to it, in the screen Server.`
}

interface CreateOptions extends JsonOption, AccountOption {
  readonly role: TeamRole
  readonly name?: string | undefined
  readonly passwordStdin?: boolean | undefined
}

/** Reads the password from standard input without its line end; never prompts. */
function readPassword(): string {
  if (process.stdin.isTTY) throw new UsageError('No password given; pipe it in.')
  return readFileSync(0, 'utf8').replace(/\r?\n$/, '')
}
