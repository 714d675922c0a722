/** @module The fields of an API key: name, access, and what restricts it. */
import { Checkbox, Code, Input, NativeSelect, Radio, SimpleGrid, Stack } from '@mantine/core'
import { useState } from 'react'
import type { Field, Input as FieldState } from '../../parts/fields.ts'
import { bindText } from '../../parts/form.tsx'
import { Notice } from '../../parts/notice.tsx'
import { ADMIN_SCOPE, findPreset, SCOPE_GROUPS, SCOPE_PRESETS, SCOPE_TEXTS } from '../../parts/scopes.ts'
import type { FormState } from '../../parts/use-form.tsx'
import { useAllDomains } from '../domains/queries.ts'

type KeyField = Field<'name' | 'scopes' | 'expires_at' | 'domains' | 'networks'>

const GRANTS: readonly KeyField[] = [
  { name: 'name', label: 'Name', hint: 'What uses the key.', placeholder: 'Web shop', isRequired: true },
  { name: 'scopes', label: 'Access', render: (input) => <Access {...input} /> },
  { name: 'domains', label: 'Domain', render: (input) => <DomainChoice {...input} /> },
]

const LIMITS: readonly KeyField[] = [
  { name: 'expires_at', label: 'Expires', kind: 'time', hint: 'Empty: never.' },
  {
    name: 'networks',
    label: 'Allowed networks',
    kind: 'words',
    hint: 'Addresses or networks. Empty: any.',
    placeholder: '192.0.2.0/24',
  },
]

export const KEY_FIELDS = [...GRANTS, ...LIMITS]

export const KeyLayout = ({ show }: FormState) => (
  <>
    {show(GRANTS)}
    <SimpleGrid w="100%" cols={{ base: 1, sm: 2 }} spacing="md">
      {show(LIMITS)}
    </SimpleGrid>
  </>
)

const CUSTOM = 'Custom'

function Access({ value, error, set }: FieldState) {
  const scopes = value as readonly string[]
  const [isCustom, setIsCustom] = useState(() => findPreset(scopes) === undefined)
  const choose = (label: string) => {
    const preset = SCOPE_PRESETS.find((one) => one.label === label)
    setIsCustom(!preset)
    if (preset) set(preset.scopes)
  }
  return (
    <Stack gap="md" w="100%">
      <Radio.Group label="Access" value={isCustom ? CUSTOM : (findPreset(scopes)?.label ?? CUSTOM)} onChange={choose}>
        <Stack gap="xs" mt="xs">
          {SCOPE_PRESETS.map(({ label, text }) => (
            <Radio key={label} value={label} label={label} description={text} />
          ))}
          <Radio value={CUSTOM} label={CUSTOM} description="Only the scopes that you choose." />
        </Stack>
      </Radio.Group>
      {isCustom && (
        <Checkbox.Group value={[...scopes]} onChange={set} aria-label="Scopes">
          <div className="card">
            <SimpleGrid cols={{ base: 1, sm: 2 }} spacing="md">
              {SCOPE_GROUPS.map(({ label, scopes: group }) => (
                <Stack key={label} gap="xs" role="group" aria-label={label}>
                  <strong>{label}</strong>
                  {group.map((scope) => (
                    <Checkbox key={scope} value={scope} label={<Code>{scope}</Code>} description={SCOPE_TEXTS[scope]} />
                  ))}
                </Stack>
              ))}
            </SimpleGrid>
          </div>
        </Checkbox.Group>
      )}
      {error !== undefined && <Input.Error>{error}</Input.Error>}
      {scopes.includes(ADMIN_SCOPE) && (
        <Notice tone="warning" title="This key can do everything">
          It can also create keys and delete the account. An application that sends mail needs Sending.
        </Notice>
      )}
    </Stack>
  )
}

/** One domain of the account, or all; several, as a key made elsewhere may have, are one choice. */
function DomainChoice({ value, error, set, isReadOnly }: FieldState) {
  const known = useAllDomains().data?.map(({ domain }) => domain) ?? []
  const chosen = Array.isArray(value) ? value.join(', ') : ''
  return (
    <NativeSelect
      w="100%"
      label="Domain"
      description="What the key may send from."
      error={error}
      disabled={isReadOnly}
      {...bindText(chosen, (names) => set(names === '' ? null : names.split(', ')))}
      data={[{ value: '', label: 'All domains' }, ...new Set([...known, chosen].filter(Boolean))]}
    />
  )
}
