/** @module `tassis users`: manages the users who sign in with a browser. */
import { Argument, Option } from 'commander'
import type { OperatorUser, SessionSummary } from '#client/operator-api.ts'
import type { TeamRole } from '#features/core/app/app.ts'
import { ROLES } from '#features/people/team/roles.ts'
import type { CommandApi } from './api.ts'
import type { Command, Context } from './command.ts'
import { CommandError } from './errors.ts'
import { readInput } from './options.ts'
import { type Columns, fields, printResult, printSecret } from './output.ts'

const LINK_DESCRIPTION = 'The link sets a password once, within 24 hours: give it only to this user.'

const USER_COLUMNS: Columns<OperatorUser> = {
  ...fields<OperatorUser>()('email name'),
  ACCOUNTS: ({ accounts }) => accounts.map(({ name, role }) => `${name}: ${role}`),
  ...fields<OperatorUser>()('totp_enabled is_operator has_password last_login_at'),
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
      const sentence = `${isKnown ? 'Added' : 'Created'} user ${created.data.email} (${id}), ${role}.`
      if (link === null) return printResult(options, created, () => sentence)
      printSecret(options, created, link, `${sentence} ${LINK_DESCRIPTION}`)
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
    printSecret(options, created, created.data.link, LINK_DESCRIPTION)
  })

  add('role', 'change the role of a user in the team of an account')
    .account()
    .addArgument(new Argument('<role>', 'the new role').choices(ROLES))
    .answer(async ({ api }, email: string, role: TeamRole) =>
      api.team.updateMember((await findUser(api, email)).id, { role }),
    )

  add('remove', 'remove a user from the team of an account')
    .account()
    .answer(
      async ({ api }, email) => {
        const { data: account } = await api.account.get()
        await api.operator.deleteAccountUser(account.id, email)
        const { data: team } = await api.team.listMembers()
        return { data: { email, account_id: account.id, has_owner: team.some(({ role }) => role === 'owner') } }
      },
      ({ data }) =>
        `Removed ${data.email} from the team; a user of no other team is deleted.${data.has_owner ? '' : '\nThe team has no owner now; add one with `tassis users create ada@example.com --role owner`.'}`,
    )

  add('totp-off', 'remove the authenticator app and the passkeys of a user who has lost them').answer(
    async ({ api }, email) => api.operator.deleteUserTotp(email),
  )

  add('operator', 'make a user an operator of the whole service')
    .option('--remove', 'the user is no operator any more')
    .answer(
      async ({ api, options }: Context<{ readonly remove?: boolean }>, email) =>
        api.operator.setUserOperator(email, { is_operator: options.remove !== true }),
      ({ data }) =>
        data.is_operator
          ? `${data.email} is an operator of the service now: the dashboard has the screen Server, after a sign-in with a code of an authenticator app or a passkey.`
          : `${data.email} is no operator of the service.`,
    )

  add('sessions', 'list the sessions of a user').list(
    ({ api }, email) => api.operator.listUserSessions(email),
    'The user has no session.',
    fields<SessionSummary>()('id last_seen_at created_at ip_address user_agent'),
  )

  add('sign-out', 'end all sessions of a user immediately').answer(async ({ api }, email) =>
    api.operator.deleteUserSessions(email),
  )
}

async function findUser(api: CommandApi, email: string): Promise<OperatorUser> {
  const { data: users } = await api.operator.listUsers()
  const user = users.find((known) => known.email === email.toLowerCase())
  if (!user) throw new CommandError(`There is no user ${email}; \`tassis users list\` shows all.`, 'user_not_found')
  return user
}

/** The password without its line end. */
const readPassword = (): string =>
  readInput(undefined, 'password')
    .toString()
    .replace(/\r?\n$/, '')
