/** @module The choice of a role, with what each allows. */
import { Radio, Stack } from '@mantine/core'
import { useSession } from '../../api/session.tsx'

const ROLES = [
  { role: 'owner', text: 'May do everything, also delete the account, buy a plan and change owners.' },
  { role: 'admin', text: 'May do everything else: team, API keys, settings, sub-accounts, exports.' },
  { role: 'developer', text: 'May send and set up mail: domains, templates, webhooks, contacts.' },
  { role: 'viewer', text: 'May read everything, also received mail, and change nothing.' },
] as const

export type Role = (typeof ROLES)[number]['role']

interface RoleFieldProps {
  readonly value: Role
  readonly error?: string | undefined
  onChange(role: Role): void
}

export function RoleField({ value, error, onChange }: RoleFieldProps) {
  const { role: ownRole } = useSession()
  return (
    <Radio.Group label="Role" value={value} onChange={(role) => onChange(role as Role)} error={error}>
      <Stack gap="xs" mt="xs">
        {ROLES.map(({ role, text }) => {
          const isForbidden = role === 'owner' && ownRole !== 'owner'
          return (
            <Radio
              key={role}
              value={role}
              label={role}
              description={isForbidden ? `${text} Only an owner can choose this.` : text}
              disabled={isForbidden}
            />
          )
        })}
      </Stack>
    </Radio.Group>
  )
}
