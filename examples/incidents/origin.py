"""A web service for the scripts of this folder. It counts its requests, and each page of it has the same text.

python3 origin.py PORT --body TEXT --cache-control TEXT [--tag TAG] [--delay SECONDS]
"""

import argparse
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

parser = argparse.ArgumentParser()
parser.add_argument("port", type=int)
parser.add_argument("--body", required=True)
parser.add_argument("--cache-control", required=True)
parser.add_argument("--tag", default="pages")
parser.add_argument("--delay", type=float, default=0)
options = parser.parse_args()
lock, requests = threading.Lock(), 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        global requests
        if self.path == "/count":
            self.answer(str(requests), {"Cache-Control": "no-store"})
            return
        with lock:
            requests += 1
        time.sleep(options.delay)
        self.answer(options.body, {"Cache-Control": options.cache_control, "Surrogate-Key": options.tag})

    def answer(self, text, fields):
        body = (text + "\n").encode()
        self.send_response(200)
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


with Server(("127.0.0.1", options.port), Handler) as server:
    print(f"listens on http://127.0.0.1:{server.server_address[1]}/", flush=True)
    server.serve_forever()
