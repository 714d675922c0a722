/** @module `tassis users`: manages the users who sign in with a browser. */
import { Argument, Option } from 'commander'
import type { OperatorUser, SessionSummary } from '#client/operator-api.ts'
import type { TeamRole } from '#features/core/app/app.ts'
import { ROLES } from '#features/people/team/roles.ts'
import type { CommandApi } from './api.ts'
import type { Command, Context } from './command.ts'
import { CommandError } from './errors.ts'
import { readInput } from './input.ts'
import { type Columns, formatCount, formatTime, printResult, printSecret, toPrintable } from './output.ts'

const LINK_DESCRIPTION = 'sets a password once, within 24 hours'

const USER_COLUMNS: Columns<OperatorUser> = {
  EMAIL: ({ email }) => email,
  NAME: ({ name }) => name,
  ACCOUNTS: ({ accounts }) => accounts.map(({ name, role }) => `${name}: ${role}`).join(', '),
  'SECOND FACTOR': (user) => (user.totp_enabled ? 'app' : 'none'),
  'LAST LOGIN': (user) => formatTime(user.last_login_at, 'never'),
  '': (user) =>
    [...(user.is_operator ? ['operator'] : []), ...(user.has_password ? [] : ['no password yet'])].join(', '),
}

const SESSION_COLUMNS: Columns<SessionSummary> = {
  ID: ({ id }) => id,
  'LAST SEEN': (session) => formatTime(session.last_seen_at),
  'SIGNED IN': (session) => formatTime(session.created_at),
  FROM: (session) => session.ip_address ?? '',
  BROWSER: (session) => session.user_agent ?? '',
}

interface CreateOptions {
  readonly role: TeamRole
  readonly name?: string
  readonly passwordStdin?: boolean
}

export function addUserCommands(program: Command): void {
  const users = program.command('users').description('manage the users who sign in with a browser')
  /** A command about one user. */
  const add = (name: string, description: string): Command =>
    users.add(name, description).argument('<email>', 'email address of the user')

  add('create', 'create a user, or add an existing one to the team of an account')
    .account()
    .addOption(new Option('--role <role>', 'role of the user').choices(ROLES).default('owner'))
    .option('--name <name>', 'name of the user')
    .option('--password-stdin', 'read the password from standard input; default: print a link to set one')
    .run(async ({ api, options }: Context<CreateOptions>, email) => {
      const { name, role } = options
      const body = { email, role, name, password: options.passwordStdin ? readPassword() : undefined }
      const { data: account } = await api.account.get()
      const created = await api.operator.createAccountUser(account.id, body)
      const { link, is_known: isKnown, id } = created.data
      const sentence = `${isKnown ? 'Added' : 'Created'} user ${toPrintable(created.data.email)} (${id}), ${role}.`
      if (link === null) return printResult(options, created, () => sentence)
      printSecret(options, created, link, `${sentence} The link ${LINK_DESCRIPTION}: give it only to this user.`)
    })

  users
    .add('list', 'list all users')
    .list(
      ({ api }) => api.operator.listUsers(),
      'There is no user yet; create one with `tassis users create ada@example.com`.',
      USER_COLUMNS,
    )

  add('reset', 'print a link to set a new password').run(async ({ api, options }, email) => {
    const created = await api.operator.createUserResetLink(email)
    const { link } = created.data
    printSecret(options, created, link, `This link ${LINK_DESCRIPTION}: give it only to this user.`)
  })

  add('role', 'change the role of a user in the team of an account')
    .account()
    .addArgument(new Argument('<role>', 'the new role').choices(ROLES))
    .answer(
      async ({ api }, email: string, role: TeamRole) =>
        api.team.updateMember((await findUser(api, email)).id, { role }),
      ({ data }) => `${toPrintable(data.email)} now has the role ${data.role}.`,
    )

  add('remove', 'remove a user from the team of an account')
    .account()
    .run(async ({ api, options }, email) => {
      const { data: account } = await api.account.get()
      await api.operator.deleteAccountUser(account.id, email)
      const [{ data: left }, { data: team }] = [await api.operator.listUsers(), await api.team.listMembers()]
      printResult(
        options,
        { data: { email, account_id: account.id, is_gone: !left.some((user) => user.email === email.toLowerCase()) } },
        ({ data }) =>
          [
            `Removed ${toPrintable(email)} from the team.`,
            ...(data.is_gone ? ['The user belonged to no other team and was deleted.'] : []),
            ...(team.some(({ role }) => role === 'owner')
              ? []
              : ['The team has no owner now; add one with `tassis users create ada@example.com --role owner`.']),
          ].join('\n'),
      )
    })

  add('totp-off', 'disable the second factor of a user who has lost it').answer(
    async ({ api }, email) => api.operator.deleteUserTotp(email),
    ({ data }) => `${toPrintable(data.email)} now signs in without a code.`,
  )

  add('operator', 'make a user an operator of the whole service')
    .option('--remove', 'the user is no operator any more')
    .answer(
      async ({ api, options }: Context<{ readonly remove?: boolean }>, email) =>
        api.operator.setUserOperator(email, { is_operator: options.remove !== true }),
      ({ data }) => formatOperator(data),
    )

  add('sessions', 'list the sessions of a user').list(
    ({ api }, email) => api.operator.listUserSessions(email),
    'The user has no session.',
    SESSION_COLUMNS,
  )

  add('sign-out', 'end all sessions of a user immediately').answer(
    async ({ api }, email) => api.operator.deleteUserSessions(email),
    ({ data }) => `Ended ${formatCount(data.ended, 'session')}.`,
  )
}

async function findUser(api: CommandApi, email: string): Promise<OperatorUser> {
  const { data: users } = await api.operator.listUsers()
  const user = users.find((known) => known.email === email.toLowerCase())
  if (!user) throw new CommandError(`There is no user ${email}; \`tassis users list\` shows all.`, 'user_not_found')
  return user
}

function formatOperator(user: OperatorUser): string {
  const email = toPrintable(user.email)
  if (!user.is_operator) return `${email} is no operator of the service.`
  return user.totp_enabled
    ? `${email} is an operator of the service now: the dashboard has the screen Server after a sign-in with a code.`
    : `${email} is an operator of the service now, and needs an authenticator app: the dashboard leads to it, in the screen Server.`
}

/** The password without its line end. */
const readPassword = (): string =>
  readInput(undefined, 'password')
    .toString()
    .replace(/\r?\n$/, '')
