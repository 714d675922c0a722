/**
 * @module `tassis accounts`, `keys` and `users`: accounts with their plan and outgoing addresses, API keys and the master
 * keys under which the secrets in the database are sealed, and who signs in with a browser.
 */
import { Argument, InvalidArgumentError } from 'commander'
import { PLANS, type Plan, UNLIMITED } from '#features/core/accounts/plans.ts'
import type { TeamRole } from '#features/core/app/app.ts'
import { ROLES } from '#features/people/team/roles.ts'
import { SCOPES } from '#features/setup/api-keys/scopes.ts'
import { IF_FOREIGN_KEY } from '../master-key.ts'
import { type CommandApi, findOne, readRows } from './api.ts'
import type { Command, Context, ListContext } from './command.ts'
import { CommandError, collectOption, createWholeNumberParser, readInput, UsageError } from './options.ts'
import { formatFields, formatPage, formatUtc, joinParagraphs, printResult, printSecret } from './output.ts'

/** The account that a person names by its ID or name. */
const readAccount = async (api: CommandApi, account: string) => (await api.as(account).account.get()).data

export function addAccountCommands(program: Command): void {
  const add = program.group('accounts', 'create, list, show, pause, resume and delete accounts', {
    account: 'ID or name of the account',
  })
  add('create', 'create an account')
    .requiredOption('--name <name>', 'name of the account')
    .requiredOption('--email <address>', 'email address of the owner')
    .choice('--plan <plan>', 'plan of the account', PLANS, 'unlimited')
    .answer(
      async ({ api, options: { name, email, plan } }: Context<{ name: string; email: string; plan: Plan }>) =>
        api.operator.createAccount({ name, email, plan }),
      ({ data }) =>
        `${formatFields(data)}\n\nNext: \`tassis keys create --name app\` and \`tassis domains add example.com\`, with --account if there are several.`,
      { canCreate: true },
    )
  add('list', 'list all accounts').list(
    ({ api }: Context) => api.operator.listAccounts({ per_page: 100 }),
    'id name email plan used_this_month of created_at paused_at disabled_at parent_account_id',
    { of: ({ monthly_quota: quota }) => quota ?? 'unlimited' },
    'There is no account yet; create one with `tassis accounts create`.',
  )
  add('pool <account> [pool]', 'show or choose the outgoing addresses from which the mail of an account leaves', {
    pool: 'name of a pool in TASSIS_OUTBOUND_IPS; without it, shows the pools',
  })
    .option('--stream <slug>', 'only mail of this stream, from now on; its pool wins over that of the account')
    .option('--none', 'end the pool of the account or stream')
    .answer(
      async ({ api, options }: Context<{ stream?: string; none?: true }>, account: string, pool?: string) => {
        const { stream, none } = options
        if (pool !== undefined && none) throw new UsageError('Name a pool or use --none, not both.')
        if (stream !== undefined && pool === undefined && !none)
          throw new UsageError('Name the pool for the stream, or use --none to end its pool.')
        const { id } = await readAccount(api, account)
        return pool === undefined && !none
          ? api.operator.getAccount(id)
          : api.operator.setAccountPool(id, { stream, pool: pool ?? null })
      },
      ({ data: { pool, stream_pools } }) => formatFields({ pool: pool ?? 'none', stream_pools }),
    )
  add('pause <account>', 'pause an account: it cannot send, and its queued mail is held')
    .requiredOption('--reason <sentence>', 'why; the users of the account read it')
    .answer(async ({ api, options: { reason } }: Context<{ reason: string }>, account) =>
      api.operator.pauseAccount((await readAccount(api, account)).id, { reason }),
    )
  add('resume <account>', 'resume a paused account and release its held mail').answer(async ({ api }, account) =>
    api.operator.resumeAccount((await readAccount(api, account)).id),
  )
  add('findings [account]', 'list abuse findings, newest first', {
    account: 'ID or name of the account; default: all accounts',
  })
    .limit('findings', 50)
    .list(async ({ api, options, query }: ListContext<{ limit: number }>, account?: string) => {
      const accountId = account && (await readAccount(api, account)).id
      return readRows(api.operator.listFindings({ ...query, account_id: accountId }), options.limit)
    }, 'created_at account source paused reason detail')
  add('show <account>', 'show an account: plan, quota, rates and thresholds, and whether it may send').answer(
    async ({ api }, account) => api.operator.getAccount((await readAccount(api, account)).id),
  )
  add('plan <account>', 'set the plan or the monthly quota of an account')
    .addArgument(new Argument('[plan]', 'the new plan').choices(PLANS))
    .option('--monthly-quota <recipients>', 'quota of the account; "plan" for the quota of the plan', parseQuota)
    .answer(async ({ api, options }: Context<{ monthlyQuota?: number | 'plan' }>, account: string, plan?: string) => {
      const { monthlyQuota: quota } = options
      if (plan === undefined && quota === undefined)
        throw new UsageError('Name a plan, --monthly-quota or both; `tassis accounts show` shows the present ones.')
      const body = { plan, monthly_quota: quota === 'plan' ? null : quota }
      return api.operator.setAccountPlan((await readAccount(api, account)).id, body)
    })
  add('delete <account>', 'delete an account with all its data and sub-accounts; this cannot be undone')
    .requiredOption('--confirm <name>', 'the name of the account, to confirm')
    .answer(
      async ({ api, options }: Context<{ confirm: string }>, account) => {
        const { id, name } = await readAccount(api, account)
        if (options.confirm !== name)
          throw new CommandError(
            `--confirm must be the name of the account, "${name}", because deletion cannot be undone. Nothing was deleted.`,
            'not_confirmed',
          )
        return api.as(id).account.delete({ headers: { 'x-confirm-delete': 'DELETE' } })
      },
      (_, { options: { confirm: name } }) =>
        `${name} is closed: its keys and sessions are revoked, its waiting mail is cancelled, mail to its domains is rejected.\nThe running service deletes its data, which takes ten minutes or more; \`tassis accounts deletions\` shows the progress.`,
    )
  add('deletions', 'list account deletions in progress').list(
    ({ api }: Context) => api.operator.listAccountDeletions(),
    'account_number step rows next_at',
  )
}

function parseQuota(text: string): number | 'plan' {
  if (text === 'plan') return text
  if (!/^\d{1,10}$/.test(text) || Number(text) > UNLIMITED)
    throw new InvalidArgumentError(`It must be a whole number from 0 to ${UNLIMITED} (no limit), or "plan".`)
  return Number(text)
}

const formatScopes = (scopes: readonly string[]): string =>
  SCOPES.every((scope) => scopes.includes(scope)) ? 'all' : scopes.join(', ')

interface NewKeyOptions {
  readonly name: string
  readonly scope?: readonly string[]
  readonly drafts?: true
  readonly allowRecipient?: readonly string[]
  readonly dailyLimit?: number
  readonly mailbox?: string
}

export function addKeyCommands(program: Command): void {
  const add = program.group('keys', 'create, import, list and revoke API keys; rotate the master key')
  /** A command that stores a key. */
  const addNew = (usage: string, description: string, meanings?: Readonly<Record<string, string>>): Command =>
    add(usage, description, meanings)
      .account()
      .requiredOption('--name <name>', 'name of the key')
      .option('--scope <scope>', `scope; repeat for several; default: all: ${SCOPES.join(', ')}`, collectOption)
  addNew('create', 'create an API key; it is shown only once')
    .option('--drafts', 'what it sends waits as a draft until a person releases it')
    .option('--allow-recipient <address>', 'address, or @example.com, that it may send to; repeat', collectOption)
    .option('--daily-limit <emails>', 'emails that it may send on a day (UTC)', createWholeNumberParser(1, 1_000_000))
    .option('--mailbox <id>', 'id of the only agent mailbox that it sees and sends from')
    .run(async ({ api, options }: Context<NewKeyOptions>) => {
      const { name, scope: scopes, drafts, allowRecipient, dailyLimit, mailbox } = options
      const limits = { drafts, allowed_recipients: allowRecipient, daily_limit: dailyLimit, mailbox_id: mailbox }
      const created = await api.apiKeys.create({ name, scopes, ...limits })
      const { key, scopes: granted } = created.data
      const sentence = `This is the key "${name}" (scopes: ${formatScopes(granted)}). It is shown only once: store it.`
      printSecret(options, created, key, sentence)
    })
  addNew('import [key]', 'import your own key string from standard input or a file', {
    key: 'the key; an argument is visible in the process list, so prefer standard input',
  })
    .option('--file <path>', 'file with the key; default: standard input')
    .answer(async ({ api, options }: Context<NewKeyOptions & { file?: string }>, keyArgument?: string) => {
      const { name, scope: scopes, file } = options
      if (keyArgument !== undefined && file !== undefined)
        throw new UsageError('Give the key as an argument or with --file, not both.')
      const key = keyArgument ?? readInput(file, 'key').toString().trim()
      return api.operator.importAccountApiKey((await api.account.get()).data.id, { name, scopes, key })
    })
  add('list', 'list the keys of an account')
    .account()
    .list(
      ({ api }: Context) => api.apiKeys.list(),
      'id name key_prefix last_used_at created_at scopes',
      { scopes: ({ scopes }) => formatScopes(scopes) },
      'The account has no key; create one with `tassis keys create --name app`.',
    )
  add('revoke <key>', 'revoke a key immediately', {
    key: 'its name, its ID, its first 16 characters, or the whole key',
  })
    .accountFilter()
    .answer(async ({ api: all, options }, key) => {
      const { api, ...found } = await findOne(all, 'api_key', key, options)
      await api.apiKeys.delete(found.id)
      return { data: found }
    })
  add('rotate-master', 'create a new master key and seal every stored secret again under it; delivery goes on').answer(
    async ({ api }) => {
      const rotated = await api.operator.rotateMasterKeys()
      if (rotated.data.unreadable > 0) process.exitCode = 1
      return rotated
    },
    ({ data }) =>
      joinParagraphs(
        formatFields(data),
        'Back up this file now, apart from the data: nothing opens the database without it. Former keys stay in it, below the\nnew one: links (unsubscribe, confirm, tracking, files), return paths and secrets of Supabase hooks that were made with\nthem work until you remove their lines and restart Tassis. DKIM keys (`tassis domains rotate-dkim`), webhook secrets,\nAPI keys and passwords stay as they are.',
        data.unreadable > 0 && 'Unreadable secrets could not be opened by any key; see `tassis keys list-master`.',
      ),
  )
  add('list-master', 'list the master keys, and the number of secrets sealed under each').answer(
    async ({ api }) => api.operator.listMasterKeys(),
    ({ data: shown, newest_since: since }) =>
      joinParagraphs(
        formatPage({ data: shown }, 'key secrets is_newest is_needed'),
        since !== null && `The newest key seals and signs everything since ${formatUtc(since)}.`,
        shown.some(({ key, is_newest: isNewest, is_needed: isNeeded }) => key !== null && !isNewest && isNeeded)
          ? `A rotation is in progress: a service seals every secret again within a minute of its start;\n${IF_FOREIGN_KEY}.`
          : 'Keys that are not needed only verify links and addresses in mail sent before. No master key opens the secrets of a row\nwithout a key: set them again.',
      ),
  )
}

const LINK_DESCRIPTION = 'The link sets a password once, within 24 hours: give it only to this user.'

interface CreateOptions {
  readonly role: TeamRole
  readonly name?: string
  readonly passwordStdin?: boolean
}

export function addUserCommands(program: Command): void {
  const add = program.group('users', 'manage the users who sign in with a browser', {
    email: 'email address of the user',
  })
  add('create <email>', 'create a user, or add an existing one to the team of an account')
    .account()
    .choice('--role <role>', 'role of the user', ROLES, 'owner')
    .option('--name <name>', 'name of the user')
    .option('--password-stdin', 'read the password from standard input; default: print a link to set one')
    .run(async ({ api, options: { name, role, passwordStdin, ...options } }: Context<CreateOptions>, email) => {
      const password = passwordStdin
        ? readInput(undefined, 'password')
            .toString()
            .replace(/\r?\n$/, '')
        : undefined
      const { data: account } = await api.account.get()
      const created = await api.operator.createAccountUser(account.id, { email, role, name, password })
      const { link, is_known: isKnown, id } = created.data
      const sentence = `${isKnown ? 'Added' : 'Created'} user ${created.data.email} (${id}), ${role}.`
      if (link === null) return printResult(options, created, () => sentence)
      printSecret(options, created, link, `${sentence} ${LINK_DESCRIPTION}`)
    })
  add('list', 'list all users').list(
    ({ api }: Context) => api.operator.listUsers(),
    'email name accounts totp_enabled is_operator has_password last_login_at',
    { accounts: ({ accounts }) => accounts.map(({ name, role }) => `${name}: ${role}`) },
    'There is no user yet; create one with `tassis users create ada@example.com`.',
  )
  add('reset <email>', 'print a link to set a new password').run(async ({ api, options }, email) => {
    const created = await api.operator.createUserResetLink(email)
    printSecret(options, created, created.data.link, LINK_DESCRIPTION)
  })
  add('role <email>', 'change the role of a user in the team of an account')
    .account()
    .addArgument(new Argument('<role>', 'the new role').choices(ROLES))
    .answer(async ({ api }, email: string, role: TeamRole) => {
      const { data: users } = await api.operator.listUsers()
      const user = users.find((known) => known.email === email.toLowerCase())
      if (user) return api.team.updateMember(user.id, { role })
      throw new CommandError(`There is no user ${email}; \`tassis users list\` shows all.`, 'user_not_found')
    })
  add('remove <email>', 'remove a user from the team of an account')
    .account()
    .answer(async ({ api }, email) => {
      const { data: account } = await api.account.get()
      await api.operator.deleteAccountUser(account.id, email)
      const { data: team } = await api.team.listMembers()
      return { data: { email, account_id: account.id, has_owner: team.some(({ role }) => role === 'owner') } }
    })
  add('totp-off <email>', 'remove the authenticator app and the passkeys of a user who has lost them').answer(
    async ({ api }, email) => api.operator.deleteUserTotp(email),
  )
  add('operator <email>', 'make a user an operator of the whole service')
    .option('--remove', 'the user is no operator any more')
    .answer(async ({ api, options }: Context<{ readonly remove?: boolean }>, email) =>
      api.operator.setUserOperator(email, { is_operator: options.remove !== true }),
    )
  add('sessions <email>', 'list the sessions of a user').list(
    ({ api }: Context, email: string) => api.operator.listUserSessions(email),
    'id last_seen_at created_at ip_address user_agent',
  )
  add('sign-out <email>', 'end all sessions of a user immediately').answer(async ({ api }, email) =>
    api.operator.deleteUserSessions(email),
  )
}
