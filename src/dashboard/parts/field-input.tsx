/** @module One field of a form, as its kind is shown. */
import { Checkbox, NativeSelect, PasswordInput, Radio, Stack, Switch, Textarea, TextInput } from '@mantine/core'
import { CODE_INPUT, type Field, type Input, MONOSPACE, toOption } from './fields.ts'
import { bindChecked, bindText } from './form.tsx'

interface FieldInputProps extends Input {
  readonly field: Field
  readonly isFirst: boolean
}

/** What is no number stays as it was typed: the API names the problem. */
const toNumber = (text: string): number | string => (/^\d{1,15}$/.test(text) ? Number(text) : text)

/** A text that cannot be changed can still be selected and copied. */
export function FieldInput({ field, isFirst, ...input }: FieldInputProps) {
  const { kind = 'text', label, hint, options = [], isRequired = false, lang, placeholder, maxLength } = field
  const { value, error, set } = input
  const isReadOnly = input.isReadOnly || (field.isFixed ?? false)
  if (field.render) return field.render(input)
  const shared = {
    label,
    error,
    w: '100%',
    ...(hint !== undefined && { description: hint }),
    ...(isFirst && { 'data-autofocus': true, autoFocus: true }),
  }
  const typed = {
    ...shared,
    readOnly: isReadOnly,
    required: isRequired,
    autoComplete: field.autoComplete ?? 'off',
    ...(placeholder !== undefined && { placeholder }),
    ...(maxLength !== undefined && { maxLength }),
    ...(field.inputMode && { inputMode: field.inputMode }),
    ...(lang !== undefined && { lang }),
  }
  const text = { ...typed, ...bindText(String(value), set) }
  const checked = { ...shared, ...bindChecked(value === true, set), disabled: isReadOnly }
  const [minRows, maxRows] = field.rows ?? [2, 8]
  switch (kind) {
    case 'check':
      return <Checkbox {...checked} />
    case 'switch':
      return <Switch {...checked} />
    case 'number':
      return <TextInput {...text} {...bindText(String(value), (next) => set(toNumber(next)))} inputMode="numeric" />
    case 'choice':
      return <NativeSelect {...text} disabled={isReadOnly} data={[...options]} />
    case 'radio':
      return (
        <Radio.Group label={label} error={error} value={String(value)} onChange={set}>
          <Stack gap="xs" mt="xs">
            {options.map(toOption).map((option) => (
              <Radio key={option.value} {...option} disabled={isReadOnly || (option.disabled ?? false)} />
            ))}
          </Stack>
        </Radio.Group>
      )
    case 'password':
      return <PasswordInput {...text} />
    case 'time':
      return <TextInput {...text} type="datetime-local" />
    case 'lines':
      return <Textarea {...text} autosize minRows={minRows} maxRows={maxRows} dir="auto" />
    case 'source':
    case 'json':
      return (
        <Textarea
          {...text}
          autosize
          minRows={minRows}
          maxRows={maxRows}
          dir="auto"
          spellCheck={false}
          styles={MONOSPACE}
        />
      )
    case 'text':
      return <TextInput {...text} dir="auto" />
    default:
      return <TextInput {...CODE_INPUT} {...text} {...(kind === 'email' && { inputMode: 'email' })} />
  }
}
