/** @module Invites somebody to the team; sends an invitation again; revokes one. */
import { Group, Stack, Text } from '@mantine/core'
import type { CreateTeamInvitationRequest, CreateTeamInvitationResult, TeamInvitation } from '#client/api.ts'
import { api } from '../../api/client.ts'
import { useChange } from '../../api/data.ts'
import { useSession } from '../../api/session.tsx'
import { SmallAction } from '../../parts/buttons.tsx'
import { ConfirmButton, FormButton } from '../../parts/dialog.tsx'
import { FormError } from '../../parts/form-error.tsx'
import { quote } from '../../parts/format.ts'
import { CommandBlock, useSay } from '../../parts/page.tsx'
import { Time } from '../../parts/time.tsx'
import { useRoleField } from './role-field.tsx'

/** Another invitation of the same address replaces the first. */
export const InviteButton = () => (
  <FormButton
    label="Invite somebody"
    needs="admin"
    confirm="Invite"
    fields={[
      {
        name: 'email',
        label: 'Email address',
        kind: 'email',
        hint: 'It gets a link by mail, valid for 7 days, once.',
        isRequired: true,
      },
      useRoleField(),
    ]}
    initial={{ role: 'developer' }}
    refreshes={['team']}
    run={api.team.invite}
    done={({ data }) => <Invited invitation={data} />}
  />
)

/** What became of the mail. The link itself is in the mail only: it proves who reads the address. */
const Invited = ({ invitation }: { readonly invitation: CreateTeamInvitationResult }) =>
  invitation.email_sent ? (
    <>
      A mail with the link goes to <bdi>{invitation.email}</bdi>. It is valid until <Time iso={invitation.expires_at} />
      , once.
    </>
  ) : (
    <MailMissing {...invitation} />
  )

function MailMissing({ email, role }: CreateTeamInvitationResult) {
  const { account } = useSession()
  return (
    <>
      <Text>
        The invitation of <bdi>{email}</bdi> is stored, but this service has no verified domain from which it could send
        the mail. Verify a domain, then send the invitation again.
      </Text>
      <Text>Or the operator of this server adds the user with this command, which prints a link:</Text>
      <CommandBlock command={`tassis users create ${quote(email)} --role ${role} --account ${account.id}`} />
    </>
  )
}

export function InvitationActions({ invitation }: { readonly invitation: TeamInvitation }) {
  const { email, role } = invitation
  const { role: ownRole } = useSession()
  const ownerReason = role === 'owner' && ownRole !== 'owner' ? 'Only an owner can invite owners.' : undefined
  const invite = useChange(api.team.invite, 'team')
  const say = useSay()
  return (
    <Stack gap="xs">
      <Group gap="xs" justify="flex-end" wrap="nowrap" className="row-actions">
        <SmallAction
          size="compact-sm"
          needs="admin"
          reason={ownerReason}
          loading={invite.isPending}
          onClick={() =>
            invite.mutate(
              { email, role: role as CreateTeamInvitationRequest['role'] },
              { onSuccess: ({ data }) => say(<Invited invitation={data} />) },
            )
          }
          aria-label={`Send again to ${email}`}
        >
          Send again
        </SmallAction>
        <ConfirmButton
          label="Remove"
          size="compact-sm"
          needs="admin"
          aria-label={`Remove the invitation of ${email}`}
          title="Remove this invitation?"
          refreshes={['team']}
          run={() => api.team.deleteInvitation(invitation.id)}
        >
          <Text>
            The link that was sent to <bdi>{email}</bdi> becomes invalid immediately.
          </Text>
        </ConfirmButton>
      </Group>
      <FormError error={invite.error} />
    </Stack>
  )
}
