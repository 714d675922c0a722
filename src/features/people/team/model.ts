/** @module Wire shapes of users, sessions, teams and invitations. */
import { type Static, Type } from '@sinclair/typebox'
import type { App } from '#features/core/app/app.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { Nullable, OptionalNullable, StrictObject, StringEnum, Timestamp, Uuid } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import type { Invitation } from './invitations.ts'
import type { SignedIn } from './login.ts'
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
const RoleName = StringEnum(ROLES, { description: 'owner, admin, developer or viewer.' })
const NEW_PASSWORD = `The new password: ${MIN_PASSWORD_LENGTH} to ${MAX_PASSWORD_LENGTH} characters, not one of those that attackers try first.`
const ANY_CODE = 'Six digits of the authenticator app, or a recovery code.'

const UserRecord = Type.Object(
  {
    id: Uuid({ description: 'Id of the user.' }),
    email: Type.String({ description: 'Address the user signs in with.' }),
    name: Type.String({ description: 'Name.' }),
    totp_enabled: Type.Boolean({ description: 'Whether signing in requires a code of an authenticator app.' }),
    is_operator: Type.Boolean({ description: 'Whether the user is an operator of the service.' }),
    recovery_codes_left: Type.Integer({ description: 'Number of unused recovery codes.' }),
    last_login_at: Nullable(Timestamp(), { description: 'When the user last signed in; null: never.' }),
    created_at: Timestamp({ description: 'When the user was created.' }),
  },
  { description: 'The signed-in user.' },
)

const MEMBERSHIP_FIELDS = {
  id: Uuid({ description: 'Id of the account.' }),
  name: Type.String({ description: 'Name of the account.' }),
  role: Type.String({ description: 'Role of the user in it: owner, admin, developer or viewer.' }),
}

export const SessionState = Type.Object({
  user: UserRecord,
  account: Type.Object(MEMBERSHIP_FIELDS, { description: 'The account in which requests with this session act.' }),
  role: Type.String({ description: 'Role of the user in this account: owner, admin, developer or viewer.' }),
  accounts: Type.Array(Type.Object(MEMBERSHIP_FIELDS), { description: 'All accounts of the user.' }),
  captures_mail: Type.Boolean({
    description: 'Whether the service delivers nothing: all mail is captured, and counted as delivered.',
  }),
  csrf_token: Type.String({
    description: 'Send it in the header X-CSRF-Token of every request of this session that changes something.',
  }),
})
export type SessionState = Static<typeof SessionState>

export const Login = StrictObject({
  email: Email('Address of the user.'),
  password: Password('Password of the user.'),
  code: OptionalNullable(Code(''), { description: `${ANY_CODE} Required for users who have set up an app.` }),
})

export const AccountChoice = StrictObject({
  account_id: Type.String({ maxLength: 100, description: 'Id of an account that the user belongs to.' }),
})

export const SessionRecord = Type.Object({
  id: Uuid({ description: 'Id of the session.' }),
  is_current: Type.Boolean({ description: 'Whether it is the session of this request.' }),
  ip_address: Nullable(Type.String(), { description: 'Last recorded address of the browser.' }),
  user_agent: Nullable(Type.String(), { description: 'User-Agent of the browser.' }),
  last_seen_at: Timestamp({ description: 'When it was last used, to within an hour.' }),
  expires_at: Timestamp({ description: 'When it ends if it is not used before then.' }),
  created_at: Timestamp({ description: 'When the user signed in.' }),
})
export type SessionRecord = Static<typeof SessionRecord>

export const OtherSessionsEnd = Type.Object({
  ended: Type.Integer({ description: 'Number of sessions that were ended.' }),
})

export const PasswordConfirmation = StrictObject({ password: Password('Password of the user.') })

export const PasswordChange = StrictObject({
  current_password: Password('The current password of the user.'),
  password: Password(NEW_PASSWORD),
})

export const TotpBeginning = StrictObject({ password: Password('Password of the user.') })
export const TotpSecret = Type.Object({
  secret: Type.String({ description: 'In base32, to type into the app.' }),
  otpauth_uri: Type.String({ description: 'The same as a URI for a QR code.' }),
})
export type TotpSecret = Static<typeof TotpSecret>
export const TotpConfirmation = StrictObject({ code: Code('Six digits that the app shows.') })
export const RecoveryCodes = Type.Object({
  recovery_codes: Type.Array(Type.String(), {
    description: 'Each lets the user sign in once without the app. They are not shown again.',
  }),
})
export type RecoveryCodes = Static<typeof RecoveryCodes>
export const TotpFactors = StrictObject({ password: Password('Password of the user.'), code: Code(ANY_CODE) })

export const MemberRecord = Type.Object({
  id: Uuid({ description: 'Id of the user.' }),
  email: Type.String({ description: 'Address of the user.' }),
  name: Type.String({ description: 'Name of the user.' }),
  role: Type.String({ description: 'owner, admin, developer or viewer.' }),
  totp_enabled: Type.Boolean({ description: 'Whether signing in requires a code of an authenticator app.' }),
  last_login_at: Nullable(Timestamp(), { description: 'When the user last signed in; null: never.' }),
  created_at: Timestamp({ description: 'When the user joined the team.' }),
})
export type MemberRecord = Static<typeof MemberRecord>

export const RoleChange = StrictObject({ role: RoleName })

const INVITATION_FIELDS = {
  id: Uuid({ description: 'Id of the invitation.' }),
  email: Type.String({ description: 'Invited address.' }),
  role: Type.String({ description: 'owner, admin, developer or viewer.' }),
  invited_by: Type.String({ description: 'Id of the user or key that invited; cli for the operator.' }),
  expires_at: Timestamp({ description: 'When it expires.' }),
  created_at: Timestamp({ description: 'When it was created.' }),
}
export const InvitationRecord = Type.Object(INVITATION_FIELDS)
export type InvitationRecord = Static<typeof InvitationRecord>
export const CreatedInvitation = Type.Object({
  ...INVITATION_FIELDS,
  email_sent: Type.Boolean({
    description:
      'Whether the mail was accepted for delivery; false while the service has no verified domain to send from.',
  }),
})
export type CreatedInvitation = Static<typeof CreatedInvitation>
export const NewInvitation = StrictObject({ email: Email('Address to invite.'), role: RoleName })

/** A user as operators see one. */
export const OperatorUser = Type.Object({
  id: Uuid({ description: 'Id of the user.' }),
  email: Type.String({ description: 'Address the user signs in with.' }),
  name: Type.String({ description: 'Name.' }),
  has_password: Type.Boolean({ description: 'Whether the user has set a password.' }),
  totp_enabled: Type.Boolean({ description: 'Whether signing in requires a code of an authenticator app.' }),
  is_operator: Type.Boolean({ description: 'Whether the user is an operator of the service.' }),
  last_login_at: Nullable(Timestamp(), { description: 'When the user last signed in; null: never.' }),
  created_at: Timestamp({ description: 'When the user was created.' }),
  accounts: Type.Array(Type.Object(MEMBERSHIP_FIELDS), { description: 'The teams of the user.' }),
})

export const NewOperatorUser = StrictObject({
  email: Email('Address of the user.'),
  role: RoleName,
  name: Type.Optional(Type.String({ description: 'Name of the user.' })),
  password: Type.Optional(Password('Password; default: the response has a link to set one.')),
})

const membershipWire = ({ uuid, name, role }: Membership) => ({ id: formatUuid(uuid), name, role })

/** The parts of a sign-in that pages need. */
export const sessionWire = (
  app: App,
  { user, membership, id }: Pick<SignedIn, 'user' | 'membership' | 'id'>,
): SessionState => ({
  user: {
    id: formatUuid(user.uuid),
    email: user.email,
    name: user.name,
    totp_enabled: user.totpEnabledAt !== null,
    is_operator: user.operatorAt !== null,
    recovery_codes_left: countRecoveryCodes(user),
    last_login_at: isoTimeOrNull(user.lastLoginAt),
    created_at: isoTime(user.createdAt),
  },
  account: membershipWire(membership),
  role: membership.role,
  accounts: listMemberships(app.db, user.id).map(membershipWire),
  captures_mail: app.config.delivery === 'capture',
  csrf_token: getCsrfToken(app, id),
})

export const toOperatorUser = (app: App, user: User): Static<typeof OperatorUser> => ({
  id: formatUuid(user.uuid),
  email: user.email,
  name: user.name,
  has_password: user.passwordHash !== null,
  totp_enabled: user.totpEnabledAt !== null,
  is_operator: user.operatorAt !== null,
  last_login_at: isoTimeOrNull(user.lastLoginAt),
  created_at: isoTime(user.createdAt),
  accounts: listMemberships(app.db, user.id).map(membershipWire),
})

/** @param current row id of the session that sent the request, if one did */
export const sessionRecordWire = (session: Session, current?: number): SessionRecord => ({
  id: formatUuid(session.uuid),
  is_current: session.id === current,
  ip_address: session.ipAddress,
  user_agent: session.userAgent,
  last_seen_at: isoTime(session.lastSeenAt),
  expires_at: isoTime(session.expiresAt),
  created_at: isoTime(session.createdAt),
})

export const memberWire = (member: Member): MemberRecord => ({
  id: formatUuid(member.uuid),
  email: member.email,
  name: member.name,
  role: member.role,
  totp_enabled: member.isTotpOn,
  last_login_at: isoTimeOrNull(member.lastLoginAt),
  created_at: isoTime(member.createdAt),
})

export const invitationWire = (invitation: Invitation): InvitationRecord => ({
  id: formatUuid(invitation.uuid),
  email: invitation.email,
  role: invitation.role,
  invited_by: invitation.invitedBy,
  expires_at: isoTime(invitation.expiresAt),
  created_at: isoTime(invitation.createdAt),
})
