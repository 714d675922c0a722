/** @module A template to begin with. */
import type { TemplateFields } from './texts.ts'

export const STARTER: TemplateFields = {
  locale: '',
  alias: 'welcome',
  name: 'Welcome',
  subject: 'Welcome, {{ user.name }}',
  html_body: `<!doctype html>
<html lang="en">
<body style="margin: 0; padding: 24px; background: #f2f4f7; font-family: sans-serif; color: #1d2733">
  <table role="presentation" align="center" width="100%" style="max-width: 560px; background: #ffffff; border-radius: 8px">
    <tr>
      <td style="padding: 32px">
        <h1 style="margin: 0 0 16px; font-size: 24px">Welcome, {{ user.name }}</h1>
        <p style="margin: 0 0 16px; line-height: 1.5">Your account is ready. This is what you can do next:</p>
        <ul style="margin: 0 0 24px; padding-left: 20px; line-height: 1.7">
          {% for step in steps %}
          <li>{{ step.title }}</li>
          {% endfor %}
        </ul>
        <a href="{{ start_url }}" style="display: inline-block; padding: 12px 20px; background: #1a4fb4; color: #ffffff; border-radius: 6px; text-decoration: none">Start now</a>
        {% if note is defined %}
        <p style="margin: 24px 0 0; font-size: 14px; color: #4c555f">{{ note }}</p>
        {% endif %}
      </td>
    </tr>
  </table>
</body>
</html>
`,
  text_body: `Welcome, {{ user.name }}

Your account is ready. This is what you can do next:
{% for step in steps %}
- {{ step.title }}
{%- endfor %}

Start now: {{ start_url }}
`,
}

export const STARTER_DATA = `{
  "user": { "name": "Ada" },
  "steps": [{ "title": "Invite your team" }, { "title": "Send your first email" }],
  "start_url": "https://example.com/start"
}
`
