/** @module Wire shapes of users, sessions, teams and invitations. */
import { type Static, Type } from '@sinclair/typebox'
import type { App } from '#features/core/app/app.ts'
import { toWire } from '#platform/http/envelope.ts'
import * as S from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import type { Invitation } from './invitations.ts'
import type { SignedIn } from './login.ts'
import { listPasskeys } from './passkeys/passkeys.ts'
import { MAX_PASSWORD_LENGTH, MIN_PASSWORD_LENGTH } from './passwords.ts'
import { ROLES } from './roles.ts'
import { getCsrfToken, type Session } from './sessions.ts'
import { countRecoveryCodes } from './totp.ts'
import { listMemberships, type Member, type Membership, type User } from './users.ts'

const MAX_EMAIL_LENGTH = 320
const Email = (description: string) => Type.String({ minLength: 1, maxLength: MAX_EMAIL_LENGTH, description })
/** Unlimited in practice: the rule for new passwords reports longer ones, and existing ones are simply wrong. */
const Password = (description: string) => Type.String({ maxLength: 1000, description })
const Code = (description: string) => Type.String({ maxLength: 50, description })
const ROLE_NAMES = 'owner, admin, developer, viewer or support.'
const RoleName = S.StringEnum(ROLES, { description: ROLE_NAMES })
const NEW_PASSWORD = `The new password: ${MIN_PASSWORD_LENGTH} to ${MAX_PASSWORD_LENGTH} characters, not one of those that attackers try first.`
const ANY_CODE = 'Six digits of the authenticator app, or a recovery code.'

const OWN_PASSWORD = Password('Password of the user.')

const USER_FIELDS = {
  id: S.Uuid({ description: 'Id of the user.' }),
  email: S.Text('Address the user signs in with.'),
  name: S.Text('Name.'),
  totp_enabled: Type.Boolean({ description: 'Whether signing in requires a code of an authenticator app.' }),
  is_operator: Type.Boolean({ description: 'Whether the user is an operator of the service.' }),
  last_login_at: S.TimeOrNull('When the user last signed in; null: never.'),
  created_at: S.Timestamp({ description: 'When the user was created.' }),
}

const SIGN_IN_FIELDS = {
  has_password: Type.Boolean({ description: 'Whether the user has set a password.' }),
  passkeys: S.Count('Number of passkeys of the user.'),
}

const UserRecord = Type.Object(
  { ...USER_FIELDS, ...SIGN_IN_FIELDS, recovery_codes_left: S.Count('Number of unused recovery codes.') },
  { description: 'The signed-in user.' },
)

const MEMBERSHIP_FIELDS = {
  id: S.Uuid({ description: 'Id of the account.' }),
  name: S.Text('Name of the account.'),
  role: Type.String({ description: `Role of the user in it: ${ROLE_NAMES}` }),
}

export const SessionState = Type.Object({
  user: UserRecord,
  account: Type.Object(MEMBERSHIP_FIELDS, { description: 'The account in which requests with this session act.' }),
  role: Type.String({ description: `Role of the user in this account: ${ROLE_NAMES}` }),
  accounts: Type.Array(Type.Object(MEMBERSHIP_FIELDS), { description: 'All accounts of the user.' }),
  captures_mail: Type.Boolean({
    description: 'Whether the service delivers nothing: all mail is captured, and counted as delivered.',
  }),
  sign_on_name: S.TextOrNull('Name of the identity provider by which people may sign in; null: there is none.'),
  local_sign_in: Type.Boolean({
    description:
      'Whether people may sign in with their passwords and passkeys here; false: only by the identity provider.',
  }),
  csrf_token: S.Text('Send it in the header X-CSRF-Token of every request of this session that changes something.'),
})
export type SessionState = Static<typeof SessionState>

export const Login = S.StrictObject({
  email: Email('Address of the user.'),
  password: OWN_PASSWORD,
  code: S.OptionalNullable(Code(''), { description: `${ANY_CODE} Required for users who have set up an app.` }),
})

export const AccountChoice = S.StrictObject({
  account_id: Type.String({ maxLength: 100, description: 'Id of an account that the user belongs to.' }),
})

export const SessionRecord = Type.Object({
  id: S.Uuid({ description: 'Id of the session.' }),
  is_current: Type.Boolean({ description: 'Whether it is the session of this request.' }),
  ip_address: S.TextOrNull('Last recorded address of the browser.'),
  user_agent: S.TextOrNull('User-Agent of the browser.'),
  last_seen_at: S.Timestamp({ description: 'When it was last used, to within an hour.' }),
  expires_at: S.Timestamp({ description: 'When it ends if it is not used before then.' }),
  created_at: S.Timestamp({ description: 'When the user signed in.' }),
})

export const OtherSessionsEnd = Type.Object({ ended: S.Count('Number of sessions that were ended.') })

export const PasswordConfirmation = S.StrictObject({ password: OWN_PASSWORD })

export const PasswordChange = S.StrictObject({
  current_password: Password('The current password of the user.'),
  password: Password(NEW_PASSWORD),
})

export const TotpSecret = Type.Object({
  secret: S.Text('In base32, to type into the app.'),
  otpauth_uri: S.Text('The same as a URI for a QR code.'),
})
export const TotpConfirmation = S.StrictObject({ code: Code('Six digits that the app shows.') })
export const RecoveryCodes = Type.Object({
  recovery_codes: Type.Array(Type.String(), {
    description: 'Each lets the user sign in once without the app. They are not shown again.',
  }),
})
const OPTIONAL_PASSWORD = Type.Optional(
  Password('Password of the user; one who has none confirms with a passkey or a new sign-in instead.'),
)
export const OwnPassword = S.StrictObject({ password: OPTIONAL_PASSWORD })
export const TotpFactors = S.StrictObject({ password: OPTIONAL_PASSWORD, code: Code(ANY_CODE) })
export const CodeConfirmation = S.StrictObject({ code: Code(ANY_CODE) })

const ROLE = S.Text(ROLE_NAMES)

export const MemberRecord = Type.Object({
  ...Type.Omit(Type.Object(USER_FIELDS), ['is_operator']).properties,
  role: ROLE,
  created_at: S.Timestamp({ description: 'When the user joined the team.' }),
})

export const RoleChange = S.StrictObject({ role: RoleName })

export const InvitationRecord = Type.Object({
  id: S.Uuid({ description: 'Id of the invitation.' }),
  email: S.Text('Invited address.'),
  role: ROLE,
  invited_by: S.Text('Id of the user or key that invited; cli for the operator.'),
  expires_at: S.Timestamp({ description: 'When it expires.' }),
  created_at: S.Timestamp({ description: 'When it was created.' }),
})
export const CreatedInvitation = Type.Object({
  ...InvitationRecord.properties,
  email_sent: Type.Boolean({
    description:
      'Whether the mail was accepted for delivery; false while the service has no verified domain to send from.',
  }),
})
export const NewInvitation = S.StrictObject({ email: Email('Address to invite.'), role: RoleName })

/** A user as operators see one. */
export const OperatorUser = Type.Object({
  ...USER_FIELDS,
  ...SIGN_IN_FIELDS,
  accounts: Type.Array(Type.Object(MEMBERSHIP_FIELDS), { description: 'The teams of the user.' }),
})

export const NewOperatorUser = S.StrictObject({
  email: Email('Address of the user.'),
  role: RoleName,
  name: Type.Optional(S.Text('Name of the user.')),
  password: Type.Optional(Password('Password; default: the response has a link to set one.')),
})

const membershipWire = ({ uuid, name, role }: Membership) => ({ id: formatUuid(uuid), name, role })

const toUserFacts = ({ db }: App, { id, passwordHash, totpEnabledAt, operatorAt }: User) => ({
  totp_enabled: totpEnabledAt !== null,
  is_operator: operatorAt !== null,
  has_password: passwordHash !== null,
  passkeys: listPasskeys(db, id).length,
})

/** The parts of a sign-in that pages need. */
export const sessionWire = (
  app: App,
  { user, membership, id }: Pick<SignedIn, 'user' | 'membership' | 'id'>,
): SessionState => ({
  user: toWire(UserRecord, user, { ...toUserFacts(app, user), recovery_codes_left: countRecoveryCodes(user) }),
  account: membershipWire(membership),
  role: membership.role,
  accounts: listMemberships(app.db, user.id).map(membershipWire),
  captures_mail: app.config.delivery === 'capture',
  sign_on_name: app.config.oidcIssuer === '' ? null : app.config.oidcName,
  local_sign_in: app.config.localSignIn,
  csrf_token: getCsrfToken(app, id),
})

export const toOperatorUser = (app: App, user: User): Static<typeof OperatorUser> =>
  toWire(OperatorUser, user, {
    ...toUserFacts(app, user),
    accounts: listMemberships(app.db, user.id).map(membershipWire),
  })

/** @param current row id of the session that sent the request, if one did */
export const sessionRecordWire = (session: Session, current?: number) =>
  toWire(SessionRecord, session, { is_current: session.id === current })

export const memberWire = (member: Member) =>
  toWire(MemberRecord, member, { totp_enabled: member.totpEnabledAt !== null })

export const invitationWire = (invitation: Invitation) => toWire(InvitationRecord, invitation, {})
