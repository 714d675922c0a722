"""Renders templates with Jinja itself: JSON lines of {"source", "data", "html"} come in, JSON lines of {"text"} or {"error"} go out."""
import json
import sys

import jinja2

environments = {
    html: jinja2.Environment(autoescape=html, undefined=jinja2.StrictUndefined) for html in (True, False)
}
for line in sys.stdin:
    request = json.loads(line)
    try:
        template = environments[request["html"]].from_string(request["source"])
        answer = {"text": template.render(request["data"])}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
